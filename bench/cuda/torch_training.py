"""The rows of bench/capstan_cuda_training.cpp in PyTorch."""
import torch
import torch.nn.functional as F
from torch import nn

from torch_rows import DEVICE, each_size, graphed, indices, values

LETTERS, WORDS, TOKENS = 27, 10000, 30


class ParityNet(nn.Module):
    def __init__(self, units, classes):
        super().__init__()
        self.cell, self.out = nn.RNN(1, units, nonlinearity="relu", batch_first=True), nn.Linear(units, classes)

    def forward(self, bits):  # [batch, steps, 1]
        return self.out(self.cell(bits)[1][0])


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 5, padding=2), nn.Conv2d(32, 64, 5, padding=2)
        self.fc1, self.fc2 = nn.Linear(7 * 7 * 64, 1024), nn.Linear(1024, 10)
        self.drop = nn.Dropout(0.5)

    def forward(self, images):
        h = F.max_pool2d(F.relu(self.conv1(images)), 2)
        h = F.max_pool2d(F.relu(self.conv2(h)), 2)
        return self.fc2(self.drop(F.relu(self.fc1(h.flatten(1)))))


class LetterNet(nn.Module):
    def __init__(self, units):
        super().__init__()
        self.lstm, self.out = nn.LSTM(LETTERS, units), nn.Linear(units, LETTERS)

    def forward(self, letters):  # [steps, batch, letters]
        return self.out(self.lstm(letters)[0]).flatten(0, 1)


class Gate(nn.Module):
    """x @ wx + h @ wh + b"""

    def __init__(self, units):
        super().__init__()
        self.wx = nn.Parameter(nn.init.xavier_uniform_(torch.empty(LETTERS, units)))
        self.wh = nn.Parameter(nn.init.xavier_uniform_(torch.empty(units, units)))
        self.b = nn.Parameter(torch.zeros(units))

    def forward(self, x, h):
        return torch.addmm(torch.addmm(self.b, x, self.wx), h, self.wh)


class LetterCell(nn.Module):
    """The same with a cell written by hand: eight products a step."""

    def __init__(self, units):
        super().__init__()
        self.input, self.forget, self.update, self.output = (Gate(units) for _ in range(4))
        self.out = nn.Linear(units, LETTERS)

    def forward(self, letters):  # [steps, batch, letters]
        h = c = letters.new_zeros(letters.shape[1], self.out.in_features)
        outputs = []
        for x in letters.unbind(0):
            i, f = torch.sigmoid(self.input(x, h)), torch.sigmoid(self.forget(x, h))
            c = f * c + i * torch.tanh(self.update(x, h))
            h = torch.sigmoid(self.output(x, h)) * torch.tanh(c)
            outputs.append(h)
        return self.out(torch.cat(outputs))


class WordNet(nn.Module):
    def __init__(self, units):
        super().__init__()
        self.table, self.lstm = nn.Embedding(WORDS, units), nn.LSTM(units, units, 2)
        self.out = nn.Linear(units, WORDS)

    def forward(self, text):  # [steps, batch]
        return self.out(self.lstm(self.table(text))[0]).flatten(0, 1)


class Translator(nn.Module):
    def __init__(self, units):
        super().__init__()
        self.source, self.target = nn.Embedding(TOKENS, 30), nn.Embedding(TOKENS, 30)
        self.encoder, self.decoder = nn.LSTM(30, units, 2), nn.LSTM(30, units, 2)
        self.out = nn.Linear(units, TOKENS)

    def forward(self, source, target):  # [steps, batch]
        state = self.encoder(self.source(source))[1]
        return self.out(self.decoder(self.target(target), state)[0]).flatten(0, 1)


# --- steps -----------------------------------------------------------------------------------------------------


def adam(rate):
    """Makes Adam in the implementation of a variant. A graph takes the count of steps from the device."""
    def make(parameters, variant):
        how = {"foreach": True} if variant == "foreach" else {"fused": True, "capturable": variant == "graph"}
        return torch.optim.Adam(parameters, lr=rate, **how)
    return make


def sgd(parameters, variant):
    how = {"fused": True} if variant == "fused" else {"foreach": True}
    return torch.optim.SGD(parameters, lr=0.1, **how)


def step_of(net, make_optimizer, variant, limit, labels, inputs):
    """A step on a fixed batch; the gradients are clipped by their common norm if there is a limit for it."""
    parameters = list(net.parameters())
    optimizer = make_optimizer(parameters, variant)
    model = torch.compile(net) if variant == "compiled" else net

    def work():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(*inputs), labels).backward()
        if limit is not None:
            nn.utils.clip_grad_norm_(parameters, limit, foreach=True)
        optimizer.step()

    return graphed(work) if variant == "graph" else work


def step_rows(bench, name, base, make, make_optimizer, limit=None, **axes):
    """With each implementation of the optimizer, and as a CUDA graph; `make(**sizes)` is the net, labels and inputs."""
    def prepare(sizes, variant):
        torch.manual_seed(1)
        net, labels, *inputs = make(**sizes)
        return step_of(net.to(DEVICE), make_optimizer, variant, limit, labels, inputs)

    for row, sizes in each_size(name, base, **axes):
        for variant in ("foreach", "fused", "graph"):
            bench.row(f"{row}/{variant}", lambda: prepare(sizes, variant))
    if name == "mnist_cnn":  # compilers leave recurrent layers as they are
        bench.compiled(name, lambda: prepare(base, "compiled"))


# --- rows ------------------------------------------------------------------------------------------------------


def parity(batch, steps, width):
    bits = (values([batch, steps, 1]) > 0).float()
    return ParityNet(width, steps + 1), bits.sum((1, 2)).long(), bits


def images(batch):
    return Cnn(), torch.arange(batch, device=DEVICE) % 10, values([batch, 1, 28, 28])


def letters_of(net, batch, steps):
    return net, indices([steps * batch], LETTERS, 2), F.one_hot(indices([steps, batch], LETTERS), LETTERS).float()


def words(batch, steps, width):
    return WordNet(width), indices([steps * batch], WORDS, 2), indices([steps, batch], WORDS, 1)


def sentences(batch, width):
    written = [13, batch]
    return (Translator(width), indices([13 * batch], TOKENS, 3), indices([24, batch], TOKENS, 1),
            indices(written, TOKENS, 2))


def tiny_rows(bench):
    """One step for one sample, on the state that the step before left."""
    for row, sizes in each_size("lstm4_one_sample", {"width": 4}, width=[16, 64]):
        def layer():
            lstm, x, state = nn.LSTM(1, sizes["width"]).to(DEVICE), values([1, 1, 1]), [None]

            def work():
                state[0] = lstm(x, state[0])[1]
            return work

        def cell():
            lstm, x, state = nn.LSTMCell(1, sizes["width"]).to(DEVICE), values([1, 1]), [None]

            def work():
                state[0] = lstm(x, state[0])
            return work

        bench.unrecorded(f"{row}/layer", layer)
        bench.unrecorded(f"{row}/cell", cell)


def training_rows(bench):
    step_rows(bench, "parity_step", {"batch": 1000, "steps": 50, "width": 24}, parity, adam(1e-3),
              batch=[100, 10000], steps=[10, 250], width=[8, 128])
    step_rows(bench, "mnist_cnn", {"batch": 50}, images, adam(1e-4), batch=[10, 1000])
    letters = {"batch": 64, "steps": 10, "width": 64}
    step_rows(bench, "char_lstm", letters,
              lambda batch, steps, width: letters_of(LetterNet(width), batch, steps), sgd, 1.25,
              batch=[8, 512], steps=[5, 80], width=[16, 256])
    step_rows(bench, "char_lstm_cell", letters,
              lambda batch, steps, width: letters_of(LetterCell(width), batch, steps), sgd, 1.25,
              batch=[8, 512], width=[16, 256])
    step_rows(bench, "ptb_small", {"batch": 20, "steps": 20, "width": 200}, words, sgd, 5,
              batch=[5, 80], steps=[5, 80], width=[50, 400])
    step_rows(bench, "ptb_medium", {"batch": 20, "steps": 35, "width": 650}, words, sgd, 5)
    step_rows(bench, "seq2seq_step", {"batch": 64, "width": 50}, sentences, adam(1e-3),
              batch=[8, 512], width=[16, 200])
    tiny_rows(bench)
