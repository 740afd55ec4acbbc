"""In which buckets numbers are counted: the same for both variants, so that their histograms can be compared."""

from typing import Final

from davylamp.shadow.comparison import Measure

# fmt: off
LATENCY_BUCKETS: Final = (
    0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075,
    0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
)
# fmt: on
SHARE_BUCKETS: Final = tuple(round(edge * 0.05, 2) for edge in range(1, 21))
_SIZES: Final = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
_CHANGES: Final = (-0.5, -0.2, -0.1, -0.05, -0.02, -0.01, -0.001, 0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_LIKENESS: Final = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
#: Name, meaning and buckets of each measure.
MEASURES: Final[dict[Measure, tuple[str, str, tuple[float, ...]]]] = {
    Measure.MAX_ABSOLUTE: ("max_absolute_difference", "Largest absolute difference of two answers.", _SIZES),
    Measure.MEAN_ABSOLUTE: ("mean_absolute_difference", "Mean absolute difference of two answers.", _SIZES),
    Measure.ULPS: (
        "ulps",
        "Most steps of floating point between two numbers.",
        (0.0, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 65536.0, 2.0**24),
    ),
    Measure.TOP_K_OVERLAP: (
        "top_k_overlap",
        "Share of the highest classes that both have.",
        (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0),
    ),
    Measure.KL: (
        "kl_divergence",
        "KL of the output distributions of one pair, nats.",
        (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.5, 1.0, 5.0),
    ),
    Measure.JS: (
        "js_divergence",
        "JS of the output distributions of one pair, nats.",
        (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.2, 0.5, 0.7),
    ),
    Measure.RANK_CORRELATION: ("rank_correlation", "Rank correlation of two answers.", (-0.5, *_LIKENESS)),
    Measure.FLIP_MARGIN: (
        "flip_margin",
        "How sure the baseline was of a decision that flipped.",
        (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0),
    ),
    Measure.SCORE_CHANGE: ("score_change", "Candidate less baseline, of a score.", _CHANGES),
    Measure.SIMILARITY: ("similarity", "Normalised similarity of two texts.", _LIKENESS),
    Measure.LENGTH_RATIO: (
        "length_ratio",
        "Characters, candidate over baseline.",
        (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.01, 1.1, 1.25, 1.5, 2.0, 4.0, 10.0),
    ),
    Measure.FIRST_DIFFERENCE: (
        "first_difference_tokens",
        "Place of the first token that differs, from 0.",
        (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0),
    ),
    Measure.LOG_PROBABILITY_CHANGE: (
        "log_probability_change",
        "Candidate less baseline, of tokens that both have.",
        (-5.0, -2.0, -1.0, *_CHANGES, 1.0, 2.0, 5.0),
    ),
    Measure.COSINE: ("cosine", "Cosine of two embeddings.", (-0.5, *_LIKENESS)),
}
