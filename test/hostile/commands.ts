import assert from 'node:assert/strict';
import fc, { type Arbitrary, type AsyncCommand } from 'fast-check';
import type { HostileNode } from './hostile-node.ts';
import { type Actor, codeOf, compare, type Model } from './model.ts';
import { hostileInt64, hostileString, spoiled } from './strings.ts';

/** What the commands of one sequence work on. */
export interface Stage {
  readonly hostile: HostileNode;
  readonly actors: readonly Actor[];
}

type Act = (stage: Stage, actor: Actor, model: Model) => Promise<void>;

/** One call, or what else happens to a node; what is seen afterwards is what the model says. */
class Command implements AsyncCommand<Model, Stage> {
  readonly #what: string;
  readonly #actor: number;
  readonly #act: Act;

  constructor(what: string, actor: number, act: Act) {
    this.#what = what;
    this.#actor = actor;
    this.#act = act;
  }

  check(): boolean {
    return true;
  }

  async run(model: Model, stage: Stage): Promise<void> {
    const actor = stage.actors[this.#actor];
    assert.ok(actor !== undefined);
    await this.#act(stage, actor, model);
    stage.hostile.checkUntouched();
    await compare(stage.hostile.node, stage.actors, model);
  }

  toString(): string {
    return `${this.#what}(${this.#actor})`;
  }
}

const actor = fc.nat(2);
const target = fc.nat(1);
const sizeBytes = fc.constantFrom(32n, 40n, 48n).map((mebibytes) => mebibytes << 20n);

function command(what: string, act: Act): Arbitrary<Command> {
  return actor.map((index) => new Command(what, index, act));
}

const create = fc.tuple(actor, sizeBytes).map(
  ([index, required_bytes]) =>
    new Command(`create ${required_bytes}`, index, async ({ hostile: { node } }, { capability, name }, model) => {
      const volume_capabilities = [capability];
      const call = node.client.controller.CreateVolume({
        name,
        volume_capabilities,
        capacity_range: { required_bytes },
      });
      const volume = model.get(name);
      const fits = volume === undefined || volume.sizeBytes >= required_bytes;
      assert.equal(await codeOf(call), fits ? 'OK' : 'ALREADY_EXISTS');
      if (volume === undefined) model.set(name, { sizeBytes: required_bytes, isStaged: false, targets: new Set() });
    }),
);

const remove = command('delete', async ({ hostile: { node } }, { id: volume_id, name }, model) => {
  const volume = model.get(name);
  const isUsed = volume !== undefined && (volume.isStaged || volume.targets.size > 0);
  const code = await codeOf(node.client.controller.DeleteVolume({ volume_id }));
  assert.equal(code, isUsed ? 'FAILED_PRECONDITION' : 'OK');
  if (!isUsed) model.delete(name);
});

const stage = command('stage', async ({ hostile: { node } }, { capability, id, name, staging }, model) => {
  const request = { volume_id: id, staging_target_path: staging, volume_capability: capability };
  const volume = model.get(name);
  assert.equal(await codeOf(node.client.node.NodeStageVolume(request)), volume === undefined ? 'NOT_FOUND' : 'OK');
  if (volume !== undefined) volume.isStaged = true;
});

const unstage = command('unstage', async ({ hostile: { node } }, { id, name, staging }, model) => {
  const volume = model.get(name);
  const isPublished = volume !== undefined && volume.targets.size > 0;
  const code = await codeOf(node.client.node.NodeUnstageVolume({ volume_id: id, staging_target_path: staging }));
  assert.equal(code, isPublished ? 'FAILED_PRECONDITION' : 'OK');
  if (volume !== undefined && !isPublished) volume.isStaged = false;
});

const publish = fc.tuple(actor, target).map(
  ([index, at]) =>
    new Command(`publish ${at}`, index, async ({ hostile: { node } }, who, model) => {
      const { capability: volume_capability, id: volume_id, name, staging: staging_target_path } = who;
      const target_path = who.targets[at] ?? '';
      const request = { volume_id, staging_target_path, target_path, volume_capability };
      const volume = model.get(name);
      const refusal = volume?.isStaged === true ? 'OK' : 'FAILED_PRECONDITION';
      const code = await codeOf(node.client.node.NodePublishVolume(request));
      assert.equal(code, volume === undefined ? 'NOT_FOUND' : refusal);
      if (code === 'OK') volume?.targets.add(at);
    }),
);

const unpublish = fc.tuple(actor, target).map(
  ([index, at]) =>
    new Command(`unpublish ${at}`, index, async ({ hostile: { node } }, { id: volume_id, name, targets }, model) => {
      const target_path = targets[at] ?? '';
      assert.equal(await codeOf(node.client.node.NodeUnpublishVolume({ volume_id, target_path })), 'OK');
      model.get(name)?.targets.delete(at);
    }),
);

const expand = fc.tuple(actor, sizeBytes).map(
  ([index, required_bytes]) =>
    new Command(`expand ${required_bytes}`, index, async ({ hostile: { node } }, { id: volume_id, name }, model) => {
      const volume = model.get(name);
      const call = node.client.controller.ControllerExpandVolume({ volume_id, capacity_range: { required_bytes } });
      assert.equal(await codeOf(call), volume === undefined ? 'NOT_FOUND' : 'OK');
      if (volume !== undefined && volume.sizeBytes < required_bytes) volume.sizeBytes = required_bytes;
    }),
);

const kill = command('kill -9 and start', async ({ hostile: { node } }) => {
  await node.kill();
  await node.start();
});

/** Requests that must change nothing, whatever they are answered with. */
const hostile = fc.tuple(actor, fc.nat(9), hostileString, hostileInt64, fc.nat(), spoiled(fc.constant('one'))).map(
  ([index, kind, text, number, nth, tail]) =>
    new Command(`hostile ${kind} ${JSON.stringify(text).slice(0, 80)} ${number}`, index, async (scene, who) => {
      const { client } = scene.hostile.node;
      const { forbiddenPaths } = scene.hostile;
      const other = scene.actors[(index + 1) % scene.actors.length];
      assert.ok(other !== undefined);
      const forbidden = forbiddenPaths[nth % forbiddenPaths.length] ?? '/';
      const { capability: volume_capability, id: volume_id, staging: staging_target_path } = who;
      const unfit = number >= 32n << 20n && number <= 16n << 30n ? -1n : number;
      const calls: readonly (() => Promise<unknown>)[] = [
        () => client.node.NodeStageVolume({ volume_id, staging_target_path: forbidden, volume_capability }),
        () =>
          client.node.NodePublishVolume({ volume_id, staging_target_path, target_path: forbidden, volume_capability }),
        () => client.node.NodeUnpublishVolume({ volume_id, target_path: forbidden }),
        () => client.node.NodeUnstageVolume({ volume_id, staging_target_path: forbidden }),
        () => client.node.NodeUnpublishVolume({ volume_id, target_path: other.targets[nth % 2] ?? '' }),
        () => client.node.NodeUnstageVolume({ volume_id, staging_target_path: other.staging }),
        () => client.controller.DeleteVolume({ volume_id: `${volume_id}${text}x` }),
        () =>
          client.controller.ControllerExpandVolume({
            volume_id,
            capacity_range: { required_bytes: unfit, limit_bytes: 1n },
          }),
        () =>
          client.controller.CreateVolume({
            name: who.name,
            volume_capabilities: [other.capability],
            capacity_range: { required_bytes: unfit, limit_bytes: 1n },
          }),
        () =>
          client.node.NodeStageVolume({
            volume_id,
            staging_target_path: `${who.staging}/${tail}/${text}/..`,
            volume_capability,
          }),
      ];
      await codeOf(calls[kind]?.() ?? Promise.resolve());
    }),
);

/** Sequences of what a cluster does, with what nobody should do among it. */
export const sequences = fc.commands(
  [create, remove, stage, unstage, publish, unpublish, expand, hostile, hostile, kill],
  { maxCommands: 40, size: 'max' },
);
