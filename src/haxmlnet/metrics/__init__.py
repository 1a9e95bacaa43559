"""How good a `Ranking` is: P, nDCG, PSP, PSnDCG, R, RP and F1, all in percent, and the report of them."""

from haxmlnet.metrics.buckets import Bucket, bucket_table, frequency_buckets
from haxmlnet.metrics.f1 import f1_at_threshold
from haxmlnet.metrics.propensity import Gains, Propensity, propensities, propensity_gains, psndcg_at_k, psp_at_k
from haxmlnet.metrics.report import Report, evaluate
from haxmlnet.metrics.top_k import Judged, judge, ndcg_at_k, precision_at_k, r_precision_at_k, recall_at_k

__all__ = [
    "Bucket",
    "Gains",
    "Judged",
    "Propensity",
    "Report",
    "bucket_table",
    "evaluate",
    "f1_at_threshold",
    "frequency_buckets",
    "judge",
    "ndcg_at_k",
    "precision_at_k",
    "propensities",
    "propensity_gains",
    "psndcg_at_k",
    "psp_at_k",
    "r_precision_at_k",
    "recall_at_k",
]
