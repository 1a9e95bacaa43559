"""`Estimator`: what scikit-learn's tools expect of an estimator, without importing scikit-learn at every start."""

from __future__ import annotations

import dataclasses
from typing import Any, Self


class Estimator:
    """Settings by name; a subclass is also a dataclass, whose fields are the settings."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all settings by name."""
        return {name: getattr(self, name) for name in self._setting_names()}

    def set_params(self, **settings: Any) -> Self:
        """Change some settings."""
        known = self._setting_names()
        for name in settings:
            if name not in known:
                raise ValueError(f"Invalid parameter {name!r} for {type(self).__name__}. Valid are {', '.join(known)}.")
        for name, value in settings.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Show the settings that differ from the defaults."""
        changed = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, which is at hand when it asks."""
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)

    def _setting_names(self) -> list[str]:
        return [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
