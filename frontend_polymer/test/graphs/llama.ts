import { GRADES } from '../../src/data/codes';
import { Direction, Grade, Kind, Overflow } from '../../src/generated/graph_pb';
import type { Sketch } from './synthetic';

export interface LlamaOptions {
  layers: number;
  /** Calls of the whole model. */
  steps?: number;
  /** APIs directly below one extra module. */
  wide?: number;
}

/** A training step of a model of decoder layers, and a reference that differs here and there. */
export function llamaPair(options: LlamaOptions): [npu: Sketch, bench: Sketch] {
  return [llama(options, false), llama(options, true)];
}

function llama({ layers, steps = 1, wide = 0 }: LlamaOptions, isBench: boolean): Sketch {
  const calls = new Map<string, number>();
  let random = 42;
  const next = () => (random = (random * 1103515245 + 12345) % 2 ** 31) / 2 ** 31;
  const graded = (badness: number): Partial<Sketch> => {
    const error = Math.min(1, badness * (0.3 + next()));
    if (isBench) return {};
    const grade = GRADES[error === 0 ? Grade.OK : Math.min(5, 1 + Math.floor(error * 5))]!;
    return { error, grade };
  };
  const api = (stem: string, direction: Direction, badness = 0): Sketch => {
    const id = `${stem}.${direction}`;
    const call = calls.get(id) ?? 0;
    calls.set(id, call + 1);
    return { stem, kind: Kind.API, direction, call, key: `${id}.${call}`, ...graded(badness) };
  };
  const module = (
    stem: string,
    direction: Direction,
    call: number,
    badness: number,
    children: Sketch[],
  ): Sketch => ({
    ...{ stem, direction, call, children, key: `${stem}.${direction}.${call}` },
    ...graded(badness),
  });

  const layer = (index: number, direction: Direction, call: number): Sketch => {
    const path = `Module.model.layers.${index}`;
    const isBad = index >= Math.min(3, Math.floor(layers / 2));
    const bad = isBad ? Math.min(1, 0.25 + index / layers) : 0;
    const linear = (name: string, badness = 0) =>
      module(`${path}.${name}.Linear`, direction, call, badness, [
        api('Functional.linear', direction, badness),
      ]);
    const norm = (name: string) =>
      module(
        `${path}.${name}.LlamaRMSNorm`,
        direction,
        call,
        bad * 0.2,
        ['to', 'pow', 'mean', '__add__', 'rsqrt', '__mul__'].map((operation) =>
          api(operation === 'rsqrt' ? 'Torch.rsqrt' : `Tensor.${operation}`, direction, bad * 0.2),
        ),
      );
    const fused: Sketch[] =
      isBench && index === 1
        ? [{ stem: 'Tensor.masked_fill', kind: Kind.API, direction, call: index }]
        : [];
    const rotary: Sketch[] = isBench
      ? []
      : [{ stem: 'NPU.npu_rotary_mul', kind: Kind.API, direction, call: index, reason: 'name' }];
    const attention = module(`${path}.self_attn.LlamaAttention`, direction, call, bad, [
      linear('self_attn.q_proj'),
      linear('self_attn.k_proj'),
      linear('self_attn.v_proj'),
      ...rotary,
      api('Tensor.transpose', direction),
      ...fused,
      {
        ...api('Functional.scaled_dot_product_attention', direction, bad),
        ...(isBad && !isBench && index % 3 === 0 ? { overflow: Overflow.CRITICAL } : {}),
      },
      api('Tensor.reshape', direction, bad),
      linear('self_attn.o_proj', bad),
    ]);
    const mlp = module(`${path}.mlp.LlamaMLP`, direction, call, bad * 0.6, [
      linear('mlp.gate_proj', bad * 0.4),
      api('Functional.silu', direction, bad * 0.5),
      linear('mlp.up_proj', bad * 0.4),
      linear('mlp.down_proj', bad * 0.6),
    ]);
    return module(`${path}.LlamaDecoderLayer`, direction, call, bad * 0.8, [
      norm('input_layernorm'),
      attention,
      norm('post_attention_layernorm'),
      mlp,
    ]);
  };

  const indices = Array.from({ length: layers }, (_, index) => index);
  const { FORWARD, BACKWARD } = Direction;
  const step = (call: number): Sketch[] => [
    module('Module.model.LlamaModel', FORWARD, call, 0.3, [
      module('Module.model.embed_tokens.Embedding', FORWARD, call, 0, [
        api('Functional.embedding', FORWARD),
      ]),
      ...indices.map((index) => layer(index, FORWARD, call)),
    ]),
    module('Module.lm_head.Linear', FORWARD, call, 0.5, [api('Functional.linear', FORWARD, 0.5)]),
    {
      ...{ stem: `Apis_Between_Modules.${call}`, kind: Kind.COLLECTION, key: `collection.${call}` },
      children: [api('Functional.cross_entropy', FORWARD, 0.6), api('Tensor.mean', FORWARD, 0.7)],
      ...graded(0.6),
    },
    module('Module.model.LlamaModel', BACKWARD, call, 0.9, [
      ...indices.reverse().map((index) => layer(index, BACKWARD, call)),
    ]),
  ];
  const children = Array.from({ length: steps }, (_, call) =>
    step(call).map((child): Sketch => ({ ...child, microStep: call })),
  ).flat();
  if (wide > 0) {
    const apis = Array.from({ length: wide }, () =>
      api('Tensor.add', FORWARD, next() < 0.01 ? 0.9 : 0),
    );
    children.push(module('Module.optimizer.FusedAdam', FORWARD, 0, 0, apis));
  }
  return { stem: 'DefaultModel', key: 'root', children, ...graded(0) };
}
