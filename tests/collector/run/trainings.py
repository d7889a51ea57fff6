"""Trainings of many kinds, and what a user would have written to record them.

What stands behind ``#:`` is the edited script. Each prints a number that any change would alter.
"""

from __future__ import annotations

import textwrap

_HEAD = """
import hashlib
import torch
from torch import nn
torch.manual_seed(3)
#: from msprobe_collector import PrecisionDebugger
#: debugger = PrecisionDebugger(dump_path="dump", level="mix", step=[0, 2])

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.rest = nn.Sequential(nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
    def forward(self, x):
        return self.rest(self.first(x))

def say(*models):
    state = b"".join(p.detach().numpy().tobytes() for m in models for p in m.parameters())
    print("state", hashlib.sha256(state + torch.rand(1).numpy().tobytes()).hexdigest())

net = Net()
"""

_BODIES = {
    "accumulation": """
        loss_of = nn.CrossEntropyLoss()
        optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        for _ in range(4):
            for _ in range(2):
                x, y = torch.randn(5, 6), torch.randint(0, 3, (5,))
                #: debugger.start(net)
                loss_of(net(x), y).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            #: debugger.stop(); debugger.step()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            net.eval()
            with torch.no_grad():
                loss_of(net(x), y)
            net.train()
        say(net)
    """,
    "two optimizers in a row": """
        ones = torch.optim.SGD([p for p in net.parameters() if p.ndim == 2], 1e-2)
        others = torch.optim.Adam([p for p in net.parameters() if p.ndim == 1], 1e-2)
        for _ in range(4):
            x = torch.randn(5, 6)
            #: debugger.start(net)
            net(x).square().mean().backward()
            #: debugger.stop(); debugger.step()
            ones.step()
            others.step()
            ones.zero_grad()
            others.zero_grad()
        say(net)
    """,
    "generator and discriminator": """
        judge = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        ones = torch.optim.Adam(judge.parameters(), 1e-2)
        others = torch.optim.Adam(net.parameters(), 1e-2)
        for _ in range(4):
            x, real = torch.randn(5, 6), torch.randn(5, 3)
            with torch.no_grad():
                made = net(x)
            #: debugger.start([judge, net])
            (judge(made).mean() - judge(real).mean()).backward()
            #: debugger.stop()
            ones.step()
            ones.zero_grad()
            #: debugger.start([judge, net])
            (-judge(net(x)).mean()).backward()
            #: debugger.stop(); debugger.step()
            others.step()
            others.zero_grad()
            ones.zero_grad()
        say(net, judge)
    """,
    "a scaler that leaves steps out": """
        optimizer = torch.optim.SGD(net.parameters(), 1e-2)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
        for step in range(4):
            x = torch.randn(5, 6)
            #: debugger.start(net)
            loss = net(x).square().mean() * (float("inf") if step == 1 else 1.0)
            scaler.scale(loss).backward()
            #: debugger.stop(); debugger.step()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        say(net)
    """,
    "closures": """
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
        for _ in range(4):
            x = torch.randn(5, 6)
            def closure():
                optimizer.zero_grad()
                #: debugger.start(net)
                loss = net(x).square().mean()
                loss.backward()
                #: debugger.stop()
                return loss
            optimizer.step(closure)
            #: debugger.step()
        say(net)
    """,
    "optimizers in backward": """
        for parameter in net.parameters():
            own = torch.optim.SGD([parameter], 1e-2)
            def update(parameter, own=own):
                own.step()
                own.zero_grad()
            parameter.register_post_accumulate_grad_hook(update)
        for _ in range(4):
            x = torch.randn(5, 6)
            #: debugger.start(net)
            net(x).square().mean().backward()
            #: debugger.stop(); debugger.step()
        say(net)
    """,
    "parts of a larger module": """
        class Task(nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder, self.decoder = net, nn.Linear(3, 6)
        task = Task()
        optimizer = torch.optim.SGD(task.parameters(), 1e-2)
        for _ in range(4):
            x = torch.randn(5, 6)
            #: debugger.start(task)
            (task.decoder(task.encoder(x)) - x).square().mean().backward()
            #: debugger.stop(); debugger.step()
            optimizer.step()
            optimizer.zero_grad()
        say(task)
    """,
    "parts computed again in backward": """
        from torch.utils.checkpoint import checkpoint
        class Again(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.last = net, nn.Linear(3, 2)
            def forward(self, x):
                return self.last(checkpoint(self.inner, x, use_reentrant=False))
        model = Again()
        teacher = Net().eval()
        optimizer = torch.optim.SGD(model.parameters(), 1e-2)
        for _ in range(4):
            x = torch.randn(5, 6)
            #: debugger.start(model)
            #: debugger.stop()
            with torch.no_grad():
                teacher(x)
            #: debugger.start(model)
            model(x).square().mean().backward()
            #: debugger.stop(); debugger.step()
            optimizer.step()
            optimizer.zero_grad()
        say(model)
    """,
}
TRAININGS = {name: _HEAD + textwrap.dedent(body) for name, body in _BODIES.items()}


def edited(script: str) -> str:
    """The script with the lines of a user who records it."""
    return script.replace("#: ", "")
