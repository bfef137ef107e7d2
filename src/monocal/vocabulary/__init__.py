"""Values to ids: the vocabulary, how often each value occurs, the index behind both."""

from monocal.vocabulary.vocabulary import Vocabulary

__all__ = ["Vocabulary"]
