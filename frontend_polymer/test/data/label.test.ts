import { expect, test } from 'vitest';
import { labelOf } from '../../src/data/label';
import { Direction, Kind } from '../../src/generated/graph_pb';

const { MODULE, API, COLLECTION } = Kind;
const { NONE, FORWARD, BACKWARD } = Direction;

test.each([
  ['Module.model.LlamaModel', 'DefaultModel', MODULE, FORWARD, 'model', 'LlamaModel'],
  [
    ...(['Module.model.layers.0.self_attn.q_proj.Linear'] as const),
    ...(['Module.model.layers.0.self_attn.LlamaAttention'] as const),
    ...([MODULE, BACKWARD, 'q_proj', 'Linear'] as const),
  ],
  [
    ...(['Module.model.layers.0.LlamaDecoderLayer', 'Module.model.LlamaModel'] as const),
    ...([MODULE, FORWARD, 'layers.0', 'LlamaDecoderLayer'] as const),
  ],
  ['Cell.layers.0.mlp.MLP', 'Cell.layers.0.Block', MODULE, FORWARD, 'mlp', 'MLP'],
  ['Cell.model.Net', 'DefaultModel', MODULE, FORWARD, 'model', 'Net'],
  // Only whole words of the path are the parent's.
  ['Module.modelling.Head', 'Module.model.LlamaModel', MODULE, FORWARD, 'modelling', 'Head'],
  // A module that calls itself.
  ['Module.a.b.Block', 'Module.a.b.Block', MODULE, FORWARD, 'b', 'Block'],
  ['Functional.linear', 'Module.a.Linear', API, FORWARD, 'linear', 'Functional'],
  ['NPU.npu_fusion_attention', 'Module.a.A', API, BACKWARD, 'npu_fusion_attention', 'NPU'],
  ['Apis_Between_Modules.0', 'DefaultModel', COLLECTION, NONE, 'Apis_Between_Modules.0', ''],
  ['DefaultModel', '', MODULE, NONE, 'DefaultModel', ''],
  ['Module.a.Linear.parameters_grad', 'Module.a.Linear', MODULE, NONE, 'parameters_grad', ''],
  // Names that are not as expected stay whole.
  ['oddname', 'DefaultModel', MODULE, FORWARD, 'oddname', ''],
  ['.x', 'DefaultModel', API, FORWARD, '.x', ''],
  ['x.', 'DefaultModel', API, FORWARD, 'x.', ''],
  ['Module.Net', 'DefaultModel', MODULE, FORWARD, 'Module.Net', ''],
  ['', '', MODULE, FORWARD, '', ''],
])('%s below %s', (stem, parent, kind, direction, title, type) => {
  expect(labelOf(stem, parent, kind, direction)).toEqual({ title, type });
});
