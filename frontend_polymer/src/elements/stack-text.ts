import type { StackFrame } from '../generated/graph_pb';

/** One frame the way Python's traceback writes it. */
export function frameText(frame: StackFrame): string {
  if (!frame.file) return frame.source;
  const head = `File "${frame.file}", line ${frame.line}, in ${frame.function}`;
  return frame.source ? `${head}\n  ${frame.source.trim()}` : head;
}

export function stackText(frames: readonly StackFrame[]): string {
  return frames.map(frameText).join('\n');
}

/** The frames to show: the user's own, or all of them when there is nothing but libraries. */
export function visibleFrames(frames: readonly StackFrame[], showLibrary: boolean): StackFrame[] {
  const own = frames.filter((frame) => !frame.isLibrary);
  return showLibrary || own.length === 0 ? [...frames] : own;
}
