"""What the configurations of both runs differ in, as a message."""

from __future__ import annotations

from msprobe_builder.database.read.configuration import Configuration
from msprobe_builder.facts.fact import encode
from tb_graph_ascend.generated import graph_pb2 as pb


def encode_configuration(found: Configuration) -> pb.Configuration:
    """All parts with their differences."""
    return pb.Configuration(
        outcome=found.outcome,
        said=encode(found.said),
        parts=[
            pb.ConfigurationPart(
                part=part.part,
                outcome=part.outcome,
                differences=part.differences,
                shown=[
                    pb.ConfigurationDifference(
                        level=one.level,
                        name=one.name,
                        npu_value=one.npu_value,
                        bench_value=one.bench_value,
                    )
                    for one in part.shown
                ],
            )
            for part in found.parts
        ],
    )
