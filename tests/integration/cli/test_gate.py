"""monocal gate."""

import pyarrow.parquet as pq

import monocal


def test_exit_codes_json_and_page(monocal_command, tmp_path):
    log = monocal.simulate_log(30_000, world="affine", seed=2).table()
    for name in ("none", "platt"):
        monocal.fit(log.slice(0, 10_000), method=name, score="pctr", label="click").save(tmp_path / name)
    fresh = tmp_path / "fresh.parquet"
    pq.write_table(log.slice(10_000), fresh)
    page = tmp_path / "gate.html"
    passed = monocal_command(
        "gate", tmp_path / "none", tmp_path / "platt", fresh, "--by", "device", "--html", page, "--json"
    )
    assert passed.code == 0
    assert passed.json["passed"]
    assert passed.json["tasks"]["click"]["verdict"] == "better"
    assert "The new model passes" in page.read_text()
    refused = monocal_command("gate", tmp_path / "platt", tmp_path / "none", fresh)
    assert refused.code == 3
    assert refused.out.startswith("not passed\nclick: worse by more than is tolerated: log-loss")
    unusable = monocal_command("gate", tmp_path / "platt", tmp_path / "none", fresh, "--by", "devise")
    assert unusable.code == 2
    assert "did you mean 'device'?" in unusable.err
