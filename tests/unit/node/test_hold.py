"""What a node holds of its frozen data set: whose ε fixes what, and what it moves by."""

from dataclasses import replace

import numpy as np
import pytest
from example_study import STUDY
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.errors import DataError
from pdml.node.job import training_data
from pdml.numerics.admm import labels
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.study.frozen_dataset import FrozenWriter, open_frozen

PLAN = TrainingPlan()
CLASSES = ("no", "yes", "unsure")


def frozen(folder, study, epsilons, name="bob"):
    """Records with these ε (millionths) and labels 0, 1, 0, 1, ...; all with the same features."""
    classes = len(study.classes)
    features = np.tile(study.encode({"age": 40, "sex": "male"}), (len(epsilons), 1))
    reported = np.arange(len(epsilons)) % classes
    who = {"study_hash": study.hash, "study_id": study.id, "server": name}
    with FrozenWriter(folder, width=study.width, classes=classes, **who) as writer:
        writer.append(features, reported, np.array(epsilons, dtype=np.int64))
        writer.finish(frozen_at="2026-03-01T14Z")
    return open_frozen(folder)


menus = st.lists(st.sampled_from(STUDY.epsilon_micro), min_size=1, max_size=9)


@given(menus, st.sampled_from([2, 3]))
@settings(max_examples=30)
def test_the_most_private_record_fixes_the_sensitivity(tmp_path_factory, epsilons, classes):
    """κ falls with ε: the smallest moves training most, and the largest is hidden least."""
    study = replace(STUDY, min_records=1, classes=CLASSES[:classes])
    data = frozen(tmp_path_factory.mktemp("held") / "data", study, epsilons)
    reported, each = np.array(data.labels), np.array(epsilons) / 1e6
    held = training_data.load_training_data(study, "bob", data)
    server, loss = held.server, PLAN.loss_for(classes)
    assert server.spec == ServerSpec(
        server=1,  # bob, between alice and carol
        n_servers=3,
        degree=2,
        records=len(each),
        epsilons=tuple(e for e in study.menu if min(each) <= e <= max(each)),
        width=study.width,
        classes=classes,
        constant=study.encoder.constant,
        menu=study.menu,
        encoding=study.encoder.digest,
    )
    assert held.flip().epsilon == each.max()
    np.testing.assert_array_equal(server.codes, labels.codes(reported, each, classes))

    claimed = PLAN.events(server.spec)[0].label_shift
    before = labels.label_mean(server.matrix, server.codes, loss)
    for j, epsilon in enumerate(each):
        other = np.where(np.arange(len(each)) == j, (reported + 1) % classes, reported)
        codes = labels.codes(other, each, classes)
        moved = np.linalg.norm(labels.label_mean(server.matrix, codes, loss) - before)
        assert moved <= claimed
        assert moved > 0.99 * claimed or epsilon > each.min()  # attained: records have length 1


@pytest.mark.parametrize(
    ("study", "epsilons", "name", "said"),
    [
        (replace(STUDY, min_records=3), [400_000, 1_000_000], "bob", "fewer than the 3"),
        (STUDY, [400_000] * 199, "bob", "fewer than the 200"),
        (replace(STUDY, min_records=1), [400_001], "bob", "not on the study's menu"),
        (replace(STUDY, min_records=1), [400_000], "alice", "belongs to the server 'alice'"),
    ],
)
def test_what_a_node_may_not_train_on_is_refused(tmp_path, study, epsilons, name, said):
    data = frozen(tmp_path / "data", study, epsilons, name)
    with pytest.raises(DataError, match=said):
        training_data.load_training_data(study, "bob", data)


def test_records_of_another_study_are_refused(tmp_path):
    asked, other = replace(STUDY, min_records=1), replace(STUDY, min_records=1, title="Another")
    data = frozen(tmp_path / "data", other, [400_000])
    with pytest.raises(DataError, match=r"belongs to the study.* --revision.* --before") as error:
        training_data.load_training_data(asked, "bob", data)
    assert data.manifest.study[:12] in str(error.value)
