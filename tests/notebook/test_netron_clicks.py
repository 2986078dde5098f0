"""Clicks in Netron, as they reach the kernel: handled while the extension is loaded, and their exceptions displayed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from comm.base_comm import BaseComm, CommManager
from IPython.utils.capture import capture_output

import pyopnb
from pyopnb.display.netron_page.view import TARGET


class Comm(BaseComm):
    def publish_msg(self, *args, **kwargs):
        """There is no front end."""


@pytest.fixture
def manager(bare, monkeypatch):
    """The comms of a kernel whose shell is this one, before the extension is loaded."""
    manager = CommManager()
    monkeypatch.setattr(bare, "kernel", SimpleNamespace(comm_manager=manager), raising=False)
    return manager


@pytest.fixture
def view():
    return pyopnb.netron(pyopnb.parse("(float[N] x) => (float[N] y) { a = Abs(x)  y = Neg(a) }"))


def send(manager, data):
    comm = Comm(target_name=TARGET, primary=False)
    manager.register_comm(comm)
    manager.targets[TARGET](comm, {"content": {"data": {}}})
    with capture_output() as captured:
        comm.handle_msg({"content": {"data": data}})
    return captured.stdout + captured.stderr


def test_a_click_calls_the_views_functions(manager, bare, view):
    bare.extension_manager.load_extension("pyopnb")
    seen = []
    view.on_select(seen.append)
    assert send(manager, {"view": view._id, "node": "(Neg of y)"}) == ""
    assert [node.op_type for node in seen] == ["Neg"]


def test_an_exception_is_shown(manager, bare, view):
    bare.extension_manager.load_extension("pyopnb")
    view.on_select(lambda node: 1 / 0)
    output = send(manager, {"view": view._id, "node": "(Neg of y)"})
    assert "ZeroDivisionError: division by zero" in output
    assert "view.on_select(lambda node: 1 / 0)" in output
    assert "view.py" not in output and "extension.py" not in output  # none of our own frames


@pytest.mark.parametrize("data", [{}, {"view": None, "node": 3}, {"view": ["x"], "node": {"a": 1}}])
def test_malformed_messages_are_ignored(manager, bare, view, data):
    bare.extension_manager.load_extension("pyopnb")
    view.on_select(lambda node: pytest.fail("called"))
    assert send(manager, data) == ""
