"""A ConvNeXt block in PyTorch whose depthwise convolution is Tilewright's; trained for a few steps, then compiled.

python examples/convnext_block.py [steps]
"""

import sys

import torch
from torch import nn

import tilewright as tw


class Block(nn.Module):
    """Depthwise 7x7, layer normalisation, and two linear layers around a GELU."""

    def __init__(self, channels, conv=tw.nn.Conv2d):
        super().__init__()
        self.depthwise = conv(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.wide, self.narrow = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + self.narrow(nn.functional.gelu(self.wide(y))).permute(0, 3, 1, 2)


def main(steps=3):
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ours, theirs = Block(32).to(device), Block(32, nn.Conv2d).to(device)
    theirs.load_state_dict(ours.state_dict())  # the same parameters under the same names
    x, wanted = torch.randn(2, 32, 28, 28, device=device), torch.randn(2, 32, 28, 28, device=device)
    print(f"training two blocks for {steps} steps on the {device} ...", flush=True)
    for model in (ours, theirs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(steps):
            loss = nn.functional.mse_loss(model(x), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        pairs = zip(ours.parameters(), theirs.parameters(), strict=True)
        difference = max(float((a - b).abs().max()) for a, b in pairs)
    print(f"the parameters differ by {difference:.1e} from those of a block of PyTorch's own layers", flush=True)
    graphs = torch._dynamo.explain(ours)(x)
    print(f"torch.compile: {graphs.graph_count} graph, {graphs.graph_break_count} breaks")
    print(tw.explain_call(tw.conv2d, x, ours.depthwise.weight, ours.depthwise.bias, padding=3, groups=32))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
