"""The UMC paper's own numbers, to be printed beside ours where the data are the same."""

from __future__ import annotations

METRICS = ("auc", "gauc", "ece", "frce", "mfrce")

PUBLISHED: dict[str, dict[str, tuple[float, ...]]] = {
    "avazu": {
        "Uncalib": (0.7413, 0.6544, 0.0413, 0.4207, 0.3484),
        "HistBin": (0.7309, 0.6368, 0.0090, 0.2701, 0.2035),
        "IsoReg": (0.7413, 0.6544, 0.0088, 0.2313, 0.1655),
        "SIR": (0.7413, 0.6544, 0.0083, 0.2147, 0.1478),
        "Platt": (0.7413, 0.6544, 0.0109, 0.2294, 0.1606),
        "Gauss": (0.7413, 0.6544, 0.0095, 0.2346, 0.1640),
        "FAC": (0.7515, 0.6649, 0.0042, 0.1473, 0.0974),
        "SBCR": (0.7516, 0.6651, 0.0051, 0.1416, 0.0994),
        "DESC": (0.7514, 0.6637, 0.0074, 0.1549, 0.1086),
        "UMC": (0.7521, 0.6654, 0.0033, 0.1172, 0.0837),
    },
    "aliccp": {
        "Uncalib": (0.6348, 0.5782, 0.0202, 1.4824, 0.7291),
        "HistBin": (0.5239, 0.5068, 0.0076, 1.2112, 0.3909),
        "IsoReg": (0.6348, 0.5782, 0.0078, 1.0168, 0.3555),
        "SIR": (0.6348, 0.5782, 0.0080, 1.0751, 0.3721),
        "Platt": (0.6348, 0.5782, 0.0078, 1.0179, 0.3560),
        "Gauss": (0.6348, 0.5782, 0.0078, 1.0180, 0.3561),
        "FAC": (0.6358, 0.5791, 0.0065, 0.9758, 0.3186),
        "SBCR": (0.6362, 0.5797, 0.0063, 0.9536, 0.3096),
        "DESC": (0.6364, 0.5802, 0.0067, 0.9697, 0.3200),
        "UMC": (0.6367, 0.5801, 0.0058, 0.9422, 0.2951),
    },
}
"""Source to method to (AUC, GAUC, ECE, FRCE, MFRCE), from the tables of the paper (doi 10.1145/3726302.3730105)."""

ABLATION: dict[str, tuple[float, ...]] = {
    "UMC without rescaling": (0.7508, 0.6630, 0.0078, 0.1558, 0.1118),
    "UMC without features": (0.7413, 0.6544, 0.0080, 0.2119, 0.1465),
    "UMC without UMNN": (0.7413, 0.6544, 0.0095, 0.2482, 0.1792),
    "UMC without average": (0.7508, 0.6626, 0.0084, 0.1613, 0.1248),
    "UMC without SCLoss": (0.7519, 0.6651, 0.0072, 0.1672, 0.1154),
    "UMC with MSE": (0.7521, 0.6649, 0.0061, 0.1512, 0.0982),
}
"""The paper's ablation on Avazu; FAC+, SBCR+, DESC+ and the curves of N and tau are figures without numbers."""

PUBLISHED["avazu"] |= ABLATION

DIFFERENCES = (
    "Protocol differences: the paper's script has no held-out rows for choosing the epoch and prints test metrics "
    "after each one, ours never opens test labels before the evaluator does; its vocabulary covers the whole file, "
    "ours the training part unless asked otherwise; its numbers are single runs without intervals."
)


def published_section(source: str) -> list[str]:
    """Returns Markdown lines with the paper's numbers for a source; none if it has no numbers there.

    Example:
        >>> published_section("avazu")[4]
        '| Uncalib | 0.7413 | 0.6544 | 0.0413 | 0.4207 | 0.3484 |'
        >>> published_section("criteo")
        []
    """
    if source not in PUBLISHED:
        return []
    lines = ["Published by the paper on this data set:", ""]
    lines += ["| method | " + " | ".join(METRICS) + " |", "|" + " --- |" * (len(METRICS) + 1)]
    for method, numbers in PUBLISHED[source].items():
        lines.append(f"| {method} | " + " | ".join(f"{number:.4f}" for number in numbers) + " |")
    return [*lines, "", DIFFERENCES, ""]
