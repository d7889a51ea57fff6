"""What of a module reads files, by its source: whatever it imports, calls or hands on to do so.

A file that is opened to be written says so by a constant mode. Names are looked up in the imports
of the module, so another name for one of them changes nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

# Modules whose use is to read files, or to have others do so.
MODULES = {
    *("apsw", "bz2", "cloudpickle", "codecs", "configparser", "ctypes", "dbm", "dill", "fileinput"),
    *("gzip", "h5py", "imp", "io.FileIO", "joblib", "linecache", "lzma", "mailbox", "marshal"),
    *("mmap", "netrc", "onnx", "openpyxl", "pandas", "pickle", "plistlib", "polars", "posix"),
    *("pyarrow", "requests", "runpy", "safetensors", "scipy.io", "shelve", "sqlite_utils"),
    *("subprocess", "tarfile", "tokenize", "tomllib", "urllib.request", "wave", "xml", "zipfile"),
    *("zipimport", "importlib.machinery", "importlib.util", "_io", "_pickle", "_sqlite3", "zarr"),
    *("torch.serialization", "torch.package", "torch.hub", "torch.distributed.checkpoint"),
    *("numpy.lib", "mindspore.serialization", "tensorboard.backend", "builtins", "aiofiles"),
}
# What reads, of modules that do other things as well.
FUNCTIONS = {
    *(f"numpy.{name}" for name in ("load", "fromfile", "loadtxt", "memmap", "DataSource")),
    *("numpy.genfromtxt", "numpy.fromregex", "torch.load", "torch.jit.load", "torch.export.load"),
    *("torch.ops.load_library", "torch.classes.load_library", "torch.from_file"),
    *("torch._C.PyTorchFileReader", "torch.utils.cpp_extension.load", "mindspore.load"),
    *("mindspore.load_checkpoint", "mindspore.load_mindir", "sqlite3.connect", "sqlite3.dbapi2"),
    *("os.popen", "os.system", "os.posix_spawn", "os.posix_spawnp"),
    *("os.startfile", "os.sendfile", "os.copy_file_range", "os.splice", "os.read", "os.pread"),
    *("os.readv", "os.preadv", "shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree"),
    *("shutil.copyfileobj", "shutil.unpack_archive", "shutil.move", "asyncio.subprocess"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "pkgutil.get_data", "inspect.getsource"),
    *("inspect.getsourcelines", "logging.config", "site.addsitedir", "numpy.core", "numpy._core"),
    *("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"),
}
# Methods that read, of whatever they are.
METHODS = {
    *("read_text", "read_bytes", "fromfile", "loadtxt", "genfromtxt", "memmap", "open_memmap"),
    *("from_file", "load_file", "load_library", "load_checkpoint", "read_parquet", "read_csv"),
    *("read_excel", "read_table", "read_json", "read_pickle", "parse_file", "iterparse"),
    *("ZipFile", "TarFile", "Unpickler", "safe_open", "ParquetFile", "FileIO", "FileReader"),
    *("EventAccumulator", "EventFileLoader", "PyTorchFileReader", "load_workbook", "run_path"),
    *("get_unsafe_globals_in_checkpoint", "unpack_archive"),
}
_OPENS = {"builtins.open", "io.open", "io.open_code", "os.fdopen", "codecs.open", "open"}
_OURS = ("msprobe_", "tb_graph_ascend")  # which have their own of such names, read here as well
_LENT = {name.partition(".")[0]: name.partition(".")[0] for name in MODULES | FUNCTIONS}
_LENT |= {"np": "numpy", "io": "io"}
_RUNS_TEXT = {"eval", "exec", "compile", "__import__", "__builtins__"}
_ASKING = {"getattr", "attrgetter", "methodcaller", "get", "getattr_static"}
_WRITTEN = re.compile(r"[wxa][bt]?|b[wxa]")
_WRITING_FLAGS = re.compile(r"O_(WRONLY|EXCL|TRUNC)\b")
# Where a method that is not called is nevertheless handed on to be.
_HANDED_ON: tuple[type[ast.AST], ...] = (
    *(ast.Call, ast.keyword, ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Return, ast.Yield),
    *(ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Lambda, ast.Starred),
)


def readers(source: str) -> Iterator[str]:
    """What in a module reads files, each by a name that says what it uses."""
    tree = ast.parse(source)
    names = dict(_imported(tree))
    parents = {
        id(inner): outer for outer in ast.walk(tree) for inner in ast.iter_child_nodes(outer)
    }
    for name in names.values():
        yield from _of_name(name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (found for alias in node.names for found in _of_name(alias.name))
        elif isinstance(node, ast.Constant) and re.match(r"\s*ATTACH\b", str(node.value), re.I):
            yield "ATTACH"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if isinstance(parents.get(id(node)), ast.Call):
                yield from _of_text(node.value, parents[id(node)])
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield from _of_reference(node, names, parents[id(node)])


def _plain(whole: str) -> str:
    """A name without the module of ours that has it by an import of its own."""
    parts = whole.split(".")
    if whole.startswith(_OURS):
        for place, part in enumerate(parts[1:], start=1):
            if part in _LENT:
                return ".".join([_LENT[part], *parts[place + 1 :]])
    return whole


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Names of the module that stand for others', with the whole name of what they stand for."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(aliases):
                for alias in aliases:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    yield alias.asname or whole, whole
            case ast.ImportFrom(module, aliases):
                for alias in aliases:
                    yield alias.asname or alias.name, _plain(f"{module or ''}.{alias.name}")


def _of_name(whole: str) -> Iterator[str]:
    """What a name that is imported reads by; also where a module of ours had imported it."""
    parts = whole.split(".")
    pieces = {".".join(parts[:end]) for end in range(1, len(parts) + 1)} | {parts[-1]}
    yield from sorted(pieces & (MODULES | FUNCTIONS))[:1]
    is_handed_on = parts[-1] in METHODS and not whole.startswith(_OURS)
    if whole in _OPENS | {"os.open"} or parts[-1] == "*" or is_handed_on:
        yield parts[-1]


def _of_text(text: str, call: ast.AST) -> Iterator[str]:
    """Names that are given as texts to what looks them up."""
    function = call.func if isinstance(call, ast.Call) else None
    asked = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if asked in ("import_module", "__import__", "importorskip"):
        yield from _of_name(text)
    elif asked in _ASKING and text in METHODS | {"open", "load"} | _RUNS_TEXT:
        yield text


def _of_reference(
    node: ast.Name | ast.Attribute, names: dict[str, str], parent: ast.AST
) -> Iterator[str]:
    """What a name that is used reads by."""
    whole = _whole_name(node, names)
    call = parent if isinstance(parent, ast.Call) and parent.func is node else None
    name = node.id if isinstance(node, ast.Name) else node.attr
    if whole is not None:
        if _reads_by(whole, call) or (name in METHODS and isinstance(node, ast.Attribute)):
            yield name if name in METHODS else whole
    elif isinstance(node, ast.Name):
        if name in _RUNS_TEXT or (name == "open" and not _is_written(call, 1)):
            yield name
    elif name == "open":
        if (call or isinstance(parent, _HANDED_ON)) and not _is_written(call, 0):
            yield name
    elif name in METHODS or (name == "load" and call and call.args):
        yield name


def _reads_by(whole: str, call: ast.Call | None) -> bool:
    """Whether what was imported reads a file as it is called, or handed on to be."""
    match whole:
        case "os.open":
            return call is None or not _WRITING_FLAGS.search(ast.unparse(call))
        case "sqlite3.connect" if call:
            return ast.unparse(call.args[0]) != "':memory:'"
        case "sqlite3.Connection":
            return call is not None  # else it is a type
    is_opened = whole in _OPENS or (whole.endswith(".open") and not whole.startswith(_OURS))
    is_run = re.match(r"os\.(exec|spawn)", whole) is not None
    return whole in FUNCTIONS or is_run or (is_opened and not _is_written(call, 1))


def _whole_name(node: ast.expr, names: dict[str, str]) -> str | None:
    """The whole name of something that was imported, None of what is not."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        of = _whole_name(node.value, names)
        return None if of is None else _plain(f"{of}.{node.attr}")
    return None


def _is_written(call: ast.Call | None, place: int) -> bool:
    """Whether the mode, the argument at ``place``, is a constant that lets nothing be read."""
    if call is None:
        return False
    given = [key.value for key in call.keywords if key.arg == "mode"] or call.args[
        place : place + 1
    ]
    return any(
        isinstance(one, ast.Constant)
        and isinstance(one.value, str)
        and _WRITTEN.fullmatch(one.value) is not None
        for one in given
    )
