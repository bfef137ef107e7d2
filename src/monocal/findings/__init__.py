"""The numbers of a report, one file per section; nothing here knows how they are drawn."""
