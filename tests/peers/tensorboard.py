"""TensorBoard's side of scripts/check-peers: python tensorboard.py write|check FOLDER

`check` reads the event files that Capstan wrote there with TensorBoard's own readers, and compares what they hold with
what they should, which tensorboard.cpp beside this file knows as well. `write` writes such files with PyTorch and with
TensorFlow, as far as they are there, for Capstan to read. Prints one line a run.
"""
import io
import math
import pathlib
import re
import sys
import wave

HERE = pathlib.Path(__file__).resolve().parent
# This file is called like the package that it needs.
sys.path = [path for path in sys.path if pathlib.Path(path or ".").resolve() != HERE]

import numpy as np  # noqa: E402
from tensorboard.backend.event_processing import event_accumulator, event_file_loader  # noqa: E402
from tensorboard.compat.proto import graph_pb2  # noqa: E402
from tensorboard.plugins.hparams import metadata as hparams  # noqa: E402
from tensorboard.util import tensor_util  # noqa: E402

SCALARS = 300
TEXT = "# Gr\u00f6\u00dfen\n\n| a | b |\n|---|---|\n| 1 | 2 |"
SPECIAL = [math.nan, math.inf, -math.inf, -0.0]
PNG_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def numbers(count):
    return np.array([i * 7 % 23 - 11 for i in range(count)], dtype=np.float64)


def histogram_values(step):
    return numbers(1000) * 0.25 + step


def pixels(*shape):
    return np.array([i * 7 % 256 for i in range(math.prod(shape))], dtype=np.uint8).reshape(shape)


def samples(count):
    """Of 16 bits, halves rounded away from 0."""
    return [int(math.copysign(math.floor(abs(x) / 16 * 32767 + 0.5), x)) for x in numbers(count)]


def grid(pictures):
    """[n, 1, height, width]: three columns for five pictures, two pixels around each."""
    count, _, height, width = pictures.shape
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    image = np.zeros((rows * (height + 2) + 2, columns * (width + 2) + 2), dtype=np.uint8)
    for i, picture in enumerate(pictures):
        top, left = i // columns * (height + 2) + 2, i % columns * (width + 2) + 2
        image[top:top + height, left:left + width] = picture[0]
    return image[None]


# --- reading what Capstan wrote ------------------------------------------------------------------------------------

def accumulator(folder):
    return event_accumulator.EventAccumulator(str(folder), size_guidance={
        kind: 0 for kind in event_accumulator.DEFAULT_SIZE_GUIDANCE}).Reload()


def values(folder):
    """(step, value) of all files there, as TensorBoard's newer parts see them: everything is a tensor."""
    for path in sorted(folder.iterdir()):
        for event in event_file_loader.EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                yield event.step, value


def require(same, what):
    if not same:
        raise ValueError(what)


def check_scalars(folder):
    run = accumulator(folder)
    require(run.file_version == 2.0, f"the file's version is {run.file_version}")
    loss = run.Scalars("train/loss")
    require([(event.step, event.value) for event in loss] == [(10 * i, i * 0.25 - 10) for i in range(SCALARS)],
            "train/loss differs")
    require(str([event.value for event in run.Scalars("special")]) == str(SPECIAL), "special values differ")
    require([(event.step, event.value) for event in run.Scalars("tensor")] == [(5, 7.0)], "tensor differs")
    tensors = [(step, float(tensor_util.make_ndarray(value.tensor))) for step, value in values(folder)
               if value.tag == "train/loss" and value.metadata.plugin_data.plugin_name == "scalars"]
    require(tensors == [(10 * i, i * 0.25 - 10) for i in range(SCALARS)], "train/loss differs as tensors")


def check_histograms(run, folder):
    for step, event in enumerate(run.Histograms("h")):
        expected = histogram_values(step)
        counts, edges = np.histogram(expected, 10)
        found = event.histogram_value
        require(event.step == step, "a histogram's step differs")
        require(list(found.bucket) == list(counts) and list(found.bucket_limit) == list(edges[1:]), "bins differ")
        require((found.min, found.max, found.num) == (expected.min(), expected.max(), 1000), "extremes differ")
        require((found.sum, found.sum_squares) == (expected.sum(), np.square(expected).sum()), "sums differ")
    constant = run.Histograms("constant")[0].histogram_value
    require((constant.min, constant.max, list(constant.bucket)) == (2.5, 2.5, [4]), "the constant differs")
    require(run.Histograms("nothing")[0].histogram_value.num == 0, "the empty histogram differs")
    bars = [tensor_util.make_ndarray(value.tensor) for _, value in values(folder) if value.tag == "h"]
    require(all(bar.shape == (10, 3) and bar[:, 2].sum() == 1000 for bar in bars) and len(bars) == 3,
            "histograms differ as tensors")


def check_images(run):
    expected = {"grey": pixels(1, 5, 7), "rgb": pixels(3, 4, 6), "rgba": pixels(4, 4, 6),
                "grid": grid(pixels(5, 1, 2, 3))}
    for tag, planes in expected.items():
        image = run.Images(tag)[0]
        require((image.height, image.width) == planes.shape[1:], f"{tag} has another size")
        try:
            from PIL import Image
        except ImportError:
            continue  # then only the sizes count
        picture = Image.open(io.BytesIO(image.encoded_image_string))
        require(picture.mode == PNG_MODES[len(planes)], f"{tag} is {picture.mode}")
        found = np.asarray(picture).reshape(*planes.shape[1:], len(planes)).transpose(2, 0, 1)
        require(np.array_equal(found, planes), f"{tag} has other pixels")


def check_sounds(run):
    both = samples(200)
    stereo = [both[frame + 100 * channel] for frame in range(100) for channel in range(2)]
    for tag, rate, channels, expected in (("mono", 8000, 1, both), ("stereo", 44100, 2, stereo)):
        event = run.Audio(tag)[0]
        require((event.sample_rate, event.length_frames, event.content_type) ==
                (rate, len(expected) // channels, "audio/wav"), f"{tag} is declared otherwise")
        with wave.open(io.BytesIO(event.encoded_audio_string)) as sound:
            require(sound.getparams()[:4] == (channels, 2, rate, len(expected) // channels), f"{tag} is another sound")
            found = np.frombuffer(sound.readframes(sound.getnframes()), dtype="<i2")
        require(found.tolist() == expected, f"{tag} has other samples")


def check_media(folder):
    run = accumulator(folder)
    check_histograms(run, folder)
    check_images(run)
    check_sounds(run)
    texts = [(step, value) for step, value in values(folder) if value.tag == "notes"]
    require(len(texts) == 1 and texts[0][0] == 3, "there is another number of texts")
    value = texts[0][1]
    require(value.metadata.plugin_data.plugin_name == "text", "the text is no text")
    require(tensor_util.make_ndarray(value.tensor).item() == TEXT.encode(), "the text differs")


def check_graph(folder):
    graph = accumulator(folder).Graph()
    require(isinstance(graph, graph_pb2.GraphDef), "there is no graph")

    def plain(name):  # without the numbers of lines
        return re.sub(r"\.cpp_\d+", ".cpp", name)

    found = {plain(node.name): (node.op, [plain(name) for name in node.input],
                                [d.size for d in node.attr["_output_shapes"].list.shape[0].dim]) for node in graph.node}
    fc, line = "body/fc/", "tensorboard.cpp/"
    expected = {
        "watched": ("Watched", [], [5, 3]),
        fc + "weight": ("Parameter", [], [3, 2]),
        fc + "bias": ("Parameter", [], [2]),
        fc + line + "matmul": ("matmul", ["watched", fc + "weight"], [5, 2]),
        fc + line + "add": ("add", [fc + line + "matmul", fc + "bias"], [5, 2]),
        line + "tanh": ("tanh", [fc + line + "add"], [5, 2]),
        line + "sum": ("sum", [line + "tanh"], []),
    }
    require(found == expected, f"the graph is {found}")


def check_hparams(folder):
    contents = {value.tag: value.metadata.plugin_data.content for _, value in values(folder)
                if value.metadata.plugin_data.plugin_name == hparams.PLUGIN_NAME}
    experiment = hparams.parse_experiment_plugin_data(contents[hparams.EXPERIMENT_TAG])
    kinds = {info.name: info.type for info in experiment.hparam_infos}
    require(kinds == {"learning_rate": 3, "optimizer": 1, "bias": 2, "layers": 3}, f"the experiment has {kinds}")
    require([info.name.tag for info in experiment.metric_infos] == ["loss", "accuracy"], "metrics differ")
    start = hparams.parse_session_start_info_plugin_data(contents[hparams.SESSION_START_INFO_TAG])
    found = {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()}
    require(found == {"learning_rate": 1e-3, "optimizer": "adam", "bias": True, "layers": 3.0}, f"values are {found}")
    end = hparams.parse_session_end_info_plugin_data(contents[hparams.SESSION_END_INFO_TAG])
    require(end.status == 1, f"the run's status is {end.status}")  # STATUS_SUCCESS
    require(start.start_time_secs <= end.end_time_secs, "the run ends before it starts")
    run = accumulator(folder)
    require([run.Scalars(tag)[0].value for tag in ("loss", "accuracy")] == [0.5, 0.75], "scalars differ")


CHECKS = [("scalars", check_scalars), ("media", check_media), ("graph", check_graph), ("hparams", check_hparams)]


def check(folder):
    wrong = 0
    for name, look in CHECKS:
        try:
            look(folder / "tensorboard" / name)
            text = "equal"
        except Exception as error:  # one line for each run, whatever happens
            wrong += 1
            text = f"{type(error).__name__}: {error}"
        print(f"  tensorboard/{name}: {text}")
    return wrong


# --- writing for Capstan -------------------------------------------------------------------------------------------

def write_with_torch(folder):
    from torch.utils.tensorboard import SummaryWriter
    log = SummaryWriter(str(folder))
    for i in range(SCALARS):
        log.add_scalar("train/loss", i * 0.25 - 10, 10 * i)
    for step, value in enumerate(SPECIAL):
        log.add_scalar("special", value, step)
    for step in range(3):
        log.add_histogram("h", histogram_values(step), step, bins=10)
    log.add_image("rgb", pixels(3, 4, 6), 0)
    log.add_text("notes", TEXT, 3)
    log.close()


def write_with_tensorflow(folder):
    import tensorflow as tf
    with tf.summary.create_file_writer(str(folder)).as_default():
        for i in range(SCALARS):
            tf.summary.scalar("train/loss", i * 0.25 - 10, 10 * i)
        for step, value in enumerate(SPECIAL):
            tf.summary.scalar("special", value, step)
        for step in range(3):
            tf.summary.histogram("h", histogram_values(step), step, buckets=10)
        tf.summary.image("rgb", pixels(3, 4, 6).transpose(1, 2, 0)[None], 0)
        tf.summary.audio("mono", (numbers(200) / 16).astype(np.float32).reshape(1, 200, 1), 8000, 0)
        tf.summary.text("notes", TEXT, 3)


def write(folder):
    for name, act in (("torch", write_with_torch), ("tensorflow", write_with_tensorflow)):
        try:
            act(folder / "tensorboard" / name)
            text = "written"
        except ImportError as error:
            text = f"left out: {error}"
        print(f"  tensorboard/{name}: {text}")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "check"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "write":
        write(folder)
    else:
        sys.exit(1 if check(folder) else 0)


if __name__ == "__main__":
    main()
