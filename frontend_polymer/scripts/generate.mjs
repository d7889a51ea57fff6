// Generates src/generated/graph_pb.ts from ../proto/graph.proto with the protoc of grpcio-tools.
// PYTHON names the interpreter that has it; the repository's .venv is tried first.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const frontend = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const repository = resolve(frontend, '..');
const candidates = [
  process.env.PYTHON,
  resolve(repository, '.venv/bin/python'),
  resolve(repository, '.venv/Scripts/python.exe'),
  'python3',
];
const python = candidates.find(
  (path) => path && (path === process.env.PYTHON || path === 'python3' || existsSync(path)),
);
const out = resolve(frontend, 'src/generated');
mkdirSync(out, { recursive: true });

const plugin = process.platform === 'win32' ? 'protoc-gen-es.cmd' : 'protoc-gen-es';
const { status, error } = spawnSync(
  python,
  [
    ...['-m', 'grpc_tools.protoc'],
    `-I${resolve(repository, 'proto')}`,
    `--plugin=protoc-gen-es=${resolve(frontend, 'node_modules/.bin', plugin)}`,
    `--es_out=${out}`,
    '--es_opt=target=ts',
    resolve(repository, 'proto/graph.proto'),
  ],
  { stdio: 'inherit' },
);
if (error) console.error(`cannot run ${python}: ${error.message}`);
if (status !== 0) {
  console.error(
    `protoc failed with ${python}: install it there with "pip install grpcio-tools", or set PYTHON`,
  );
}
process.exit(status ?? 1);
