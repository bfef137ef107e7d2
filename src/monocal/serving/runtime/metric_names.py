"""Names of the metrics that alarms and dashboards are built on, as Prometheus' client is given them.

A counter is exported with `_total` behind its name, a histogram with `_bucket`.
"""

REQUESTS = "monocal_requests"
REQUEST_SECONDS = "monocal_request_seconds"
ROWS = "monocal_rows"
IN_FLIGHT = "monocal_in_flight"
FIELD_UNSEEN = "monocal_field_unseen"
FIELD_VALUES = "monocal_field_values"
FEEDBACK_ROWS = "monocal_feedback_rows"
FEEDBACK_WINDOW_SUM = "monocal_feedback_window_sum"
MODEL_LOADS = "monocal_model_loads"
MODEL_INFO = "monocal_model_info"
PCOC = "monocal_pcoc"
SCORE_DRIFT_PSI = "monocal_score_drift_psi"
SCORE_DRIFT_NOISE = "monocal_score_drift_noise"
COVER_ALL_WORKERS = "monocal_metrics_cover_all_workers"
