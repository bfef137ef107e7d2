"""monocal promote and rollback."""

import monocal


def test_promote_roll_back_and_look(monocal_command, model_folder, log_file, tmp_path):
    other = monocal.fit(str(log_file), method="platt", score="pctr", label="click").save(tmp_path / "other")
    registry = tmp_path / "registry"
    first = monocal_command("promote", model_folder, "--registry", registry)
    assert (first.code, first.out) == (0, "")
    assert "generation 1 is active since 20" in first.err
    second = monocal_command("promote", other, "--registry", registry, "--json").json
    assert second["generation"] == 2
    assert monocal.load(second["folder"]).fingerprint == monocal.load(other).fingerprint
    assert monocal_command("apply", second["folder"], log_file, "--out", tmp_path / "scored.parquet").code == 0
    looked = monocal_command("inspect", registry)
    assert looked.code == 0
    assert "monocal registry: generation 2 is active" in looked.out
    assert looked.out.count("promote   generation") == 2
    back = monocal_command("rollback", "--registry", registry, "--generation", 2)
    assert back.code == 0
    assert "generation 1 is active since 20" in back.err
    found = monocal_command("inspect", registry, "--json").json
    assert [step["action"] for step in found["history"]] == ["promote", "promote", "rollback"]
    assert (found["fingerprint"], found["model"]) == (monocal.load(model_folder).fingerprint, "whole")


def test_what_cannot_be_done_is_one_line(monocal_command, model_folder, log_file, tmp_path):
    registry = ("--registry", tmp_path / "registry")

    def refused(*words):
        ended = monocal_command(*words)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        return ended.err

    assert "a saved model is a folder with manifest.json in it" in refused("promote", tmp_path / "nothing", *registry)
    assert "a registry is a folder with registry.json in it" in refused("rollback", *registry)
    used = refused("promote", model_folder, "--registry", log_file)
    assert "which is not a folder; expected a new or empty folder, or a registry. Hint: choose another" in used
    assert list(tmp_path.iterdir()) == []
    monocal_command("promote", model_folder, *registry)
    assert "none was before it" in refused("rollback", *registry)
    other = refused("rollback", *registry, "--generation", 2)
    assert "generation: got 2; expected the active one, which is 1" in other
