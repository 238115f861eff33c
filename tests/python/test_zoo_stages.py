"""Every stage of a model of the zoo as text: see zoo_stages.py."""

import zoo_stages
from zoo import ZOO


def test_every_stage_of_a_model_of_the_zoo_compiles_to_the_same_program(tmp_path):
    stages = zoo_stages.check_stages(ZOO["bert"](small=True), tmp_path)  # make zoo-stages: all of them
    assert len(stages) == 19
