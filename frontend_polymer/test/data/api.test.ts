import { create, toBinary } from '@bufbuild/protobuf';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { browserFetch, fetchBytes } from '../../src/data/api';
import { asProblem, damaged, decodeProblem, ProblemError } from '../../src/data/problem';
import { ProblemSchema } from '../../src/generated/graph_pb';

const problem = toBinary(
  ProblemSchema,
  create(ProblemSchema, { code: 'no-file', message: 'x.vis.db is gone.', remedy: 'Refresh.' }),
);

let server: Server;
let base: string;

beforeAll(async () => {
  server = createServer((request, response) => {
    if (request.url === '/bytes') response.end(Buffer.from([1, 2, 255]));
    else if (request.url === '/problem') response.writeHead(404).end(problem);
    else if (request.url === '/proxy') response.writeHead(502).end('<html>Bad gateway</html>');
    else if (request.url === '/broken') request.socket.destroy();
    // Anything else is never answered.
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
});

async function failure(path: string, signal?: AbortSignal): Promise<unknown> {
  return fetchBytes(browserFetch, new URL(path, base), signal).then(
    () => null,
    (error: unknown) => error,
  );
}

test('a body comes back byte for byte', async () => {
  expect([...(await fetchBytes(browserFetch, new URL('/bytes', base)))]).toEqual([1, 2, 255]);
});

test('a refusal carries code, message, remedy and status', async () => {
  const error = await failure('/problem');
  expect(error).toBeInstanceOf(ProblemError);
  expect(error).toMatchObject({
    ...{ code: 'no-file', message: 'x.vis.db is gone.', remedy: 'Refresh.', status: 404 },
  });
});

test('an answer that is not ours is reported by its status', async () => {
  expect(await failure('/proxy')).toMatchObject({
    ...{ code: 'http-error', message: 'The server answered with status 502.', status: 502 },
  });
});

test('no answer is a problem of its own', async () => {
  expect(await failure('/broken')).toMatchObject({
    ...{ code: 'no-answer', status: 0, message: 'The server does not answer.' },
    remedy: expect.stringContaining('still running') as string,
  });
});

test('an aborted request fails as aborted', async () => {
  const controller = new AbortController();
  const pending = failure('/silence', controller.signal);
  controller.abort();
  const error = await pending;
  expect(error).not.toBeInstanceOf(ProblemError);
  expect(error).toMatchObject({ name: 'AbortError' });
});

test('an empty body of an error is not taken for a problem', () => {
  expect(decodeProblem(500, new Uint8Array())).toMatchObject({ code: 'http-error', status: 500 });
});

test('whatever was thrown is told in its own words', () => {
  expect(asProblem(new TypeError('Nothing there.'))).toMatchObject({
    ...{ code: 'unexpected', message: 'Nothing there.', remedy: '', status: 0 },
  });
  expect(asProblem('odd')).toMatchObject({ code: 'unexpected', message: 'odd' });
  const known = damaged('no hierarchy');
  expect(asProblem(known)).toBe(known);
  expect(known).toMatchObject({
    code: 'damaged-answer',
    message: "The server's answer is damaged: no hierarchy.",
    remedy: 'Reload the page; if it stays, build the file again.',
  });
});
