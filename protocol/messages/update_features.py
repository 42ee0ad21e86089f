"""UpdateFeatures (key 57, versions 0–2): other finalized levels of features (KIP-584).

1 says what kind of downgrade is allowed and whether to try only (KIP-778), 2 has no results by feature any more.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bool, Int8, Int16, Int32, String, since, until


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdateKey:
    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: Annotated[Bool, until(0)] = False
    upgrade_type: Annotated[Int8, since(1)] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesRequest:
    timeout_ms: Int32 = 60_000
    feature_updates: tuple[FeatureUpdateKey, ...] = ()
    validate_only: Annotated[Bool, since(1)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatableFeatureResult:
    feature: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Annotated[tuple[UpdatableFeatureResult, ...], until(1)] = ()
