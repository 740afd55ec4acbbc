"""Make the models if they are missing, and print what each does to people: ``python -m e2e.demo.models``."""

from __future__ import annotations

from e2e.demo.models.artifacts import digits_qualities, ensure_models, qualities


def main() -> None:
    """Print where the models are and one line a variant."""
    models = ensure_models()
    print(f"models: {models.folder}")
    print(f"{'variant':8} {'size':>7} {'accuracy':>8} {'positive':>8} {'recall women':>12} {'men':>6} {'differs':>8}")
    for variant, found in qualities(models.held_out()).items():
        size = models.onnx(variant).stat().st_size / 1024
        print(
            f"{variant:8} {size:4.0f} KB {found.accuracy:8.4f} {found.positive:8.4f} "
            f"{found.recall_women:12.3f} {found.recall_men:6.3f} {found.differs:8.2%}"
        )
    print(f"{'digits':8} {'size':>7} {'accuracy':>8} {'differs':>8}")
    for variant, decided in digits_qualities(models.held_out_digits()).items():
        size = models.digits_onnx(variant).stat().st_size / 1024
        print(f"{variant:8} {size:4.0f} KB {decided.accuracy:8.4f} {decided.differs:8.2%}")


if __name__ == "__main__":
    main()
