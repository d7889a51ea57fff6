import { fromBinary } from '@bufbuild/protobuf';
import { ProblemSchema } from '../generated/graph_pb';

/** Something the user must be told: what happened, and what to do about it. */
export class ProblemError extends Error {
  override readonly name = 'ProblemError';

  constructor(
    readonly code: string,
    message: string,
    readonly remedy = '',
    /** HTTP status, 0 when no answer came. */
    readonly status = 0,
  ) {
    super(message);
  }
}

/** An answer that is not what the contract says. */
export function damaged(what: string): ProblemError {
  return new ProblemError(
    'damaged-answer',
    `The server's answer is damaged: ${what}.`,
    'Reload the page; if it stays, build the file again.',
  );
}

/** The problem described by the body of an answer with a status of 400 or above. */
export function decodeProblem(status: number, body: Uint8Array): ProblemError {
  try {
    const problem = fromBinary(ProblemSchema, body);
    if (problem.code !== '' && problem.message !== '') {
      return new ProblemError(problem.code, problem.message, problem.remedy, status);
    }
  } catch {
    // Not ours: a proxy's page, or TensorBoard without the plugin.
  }
  return new ProblemError(
    'http-error',
    `The server answered with status ${status}.`,
    'Check that TensorBoard is still running and reload the page.',
    status,
  );
}

/** Whatever was thrown, as something to tell the user. */
export function asProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  return new ProblemError('unexpected', error instanceof Error ? error.message : String(error));
}
