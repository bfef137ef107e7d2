"""The paper's comparison runs from raw files in their true formats, with the published numbers beside."""

from dataclasses import replace

import numpy as np

from monocal.lab.studies.cell_runner import RunOptions
from monocal.lab.studies.leaderboard import PUBLISHED
from monocal.lab.studies.run_study import run_study
from monocal.lab.studies.study import load_study

HEADER = (
    "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_category,device_id,device_ip,"
    "device_model,device_type,device_conn_type,C14,C15,C16,C17,C18,C19,C20,C21"
)


def write_avazu(folder, random, n=600):
    folder.mkdir()
    lines = [HEADER]
    for row in range(n):
        site, click, day = random.integers(4), int(random.random() < 0.3), 21 + 10 * row // n
        rest = "f3,28,ec,78,07,a9"
        lines.append(
            f"{row},{click},1410{day}{row % 24:02d},1005,0,site{site},{rest},ip{row % 9},44,1,2,157,320,50,17,0,3,-1,79"
        )
    (folder / "train").write_text("\n".join(lines) + "\n")


def write_aliccp(folder, random, n=300):
    folder.mkdir()

    def listed(**fields):
        return "\x01".join(f"{name[1:]}\x02{feature}\x031.0" for name, feature in fields.items())

    for part in ("train", "test"):
        users = [f"u{k},2,{listed(f101=k, f124=1 + k % 2)}" for k in range(8)]
        rows = [
            f"{row},{int(random.random() < 0.3)},0,u{row % 8},2,{listed(f205=random.integers(1, 9), f301=1)}"
            for row in range(n)
        ]
        (folder / f"common_features_{part}.csv").write_text("\n".join(users) + "\n")
        (folder / f"sample_skeleton_{part}.csv").write_text("\n".join(rows) + "\n")


def test_from_raw_files_to_the_papers_table(tmp_path, monkeypatch):
    monkeypatch.setattr("monocal.lab.prepare.source.find_spec", lambda name: None)
    random = np.random.default_rng(0)
    write_avazu(tmp_path / "avazu", random)
    write_aliccp(tmp_path / "aliccp", random)
    study = load_study("paper")
    names = {calibrator.name for calibrator in study.calibrators}
    assert names >= set(PUBLISHED["avazu"])
    quick = tuple(calibrator for calibrator in study.calibrators if calibrator.name in ("Uncalib", "Platt"))
    small = {"hidden": [8], "n_dimensions": 4, "batch_rows": 64}
    data = tuple(replace(spec, ranker_arguments={**spec.ranker_arguments, **small}) for spec in study.data)
    outcome = run_study(
        replace(study, data=data, calibrators=quick, n_bootstrap=5), tmp_path / "out", RunOptions(data_folder=tmp_path)
    )
    text = outcome.leaderboard.read_text()
    assert outcome.n_run == 4
    assert "120 calibration rows, " in text
    assert "with 21 fields; 120 test rows." in text
    without = PUBLISHED["avazu"]["UMC without SCLoss"]
    for numbers in (PUBLISHED["avazu"]["UMC"], without, PUBLISHED["aliccp"]["UMC"]):
        assert " | ".join(f"{number:.4f}" for number in numbers) in text
    assert "complete_journey" in outcome.missing["promotions"]


def test_published_recipes_may_learn_for_fewer_epochs_and_say_so():
    study = load_study("paper")
    short = study.trained_for(2)
    of_method = {calibrator.name: calibrator for calibrator in short.calibrators}
    assert of_method["UMC, 2 of its epochs"].arguments == {"preset": "paper", "n_epochs": 2}
    assert of_method["Platt"].arguments == {}
    assert "n_epochs" not in of_method["UMC, monocal default"].arguments
