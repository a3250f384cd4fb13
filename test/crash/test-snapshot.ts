import assert from 'node:assert/strict';
import { type GroupId, groupIdFor, memberIdFor, snapshotIdFor } from '../../src/volume/id.ts';
import { type CrashNode, nodeId } from './crash-node.ts';
import { type Origin, TestVolume } from './test-volume.ts';

/** A snapshot of a volume, as its callers see it. */
export class TestSnapshot {
  readonly id: string;
  readonly #name: string;
  readonly #source: TestVolume;
  /** Of the data at the moment of the cut. */
  #checksum: string | undefined;

  constructor(source: TestVolume) {
    this.#source = source;
    this.#name = `${source.name}-snapshot`;
    this.id = snapshotIdFor(nodeId, this.#name);
  }

  async create(): Promise<void> {
    const { controller } = this.#source.node.client;
    this.#checksum = this.#source.checksum;
    const { snapshot } = await controller.CreateSnapshot({ name: this.#name, source_volume_id: this.#source.id });
    assert.equal(snapshot?.snapshot_id, this.id);
    assert.ok(snapshot.ready_to_use);
  }

  async delete(): Promise<void> {
    await this.#source.node.client.controller.DeleteSnapshot({ snapshot_id: this.id });
  }

  get origin(): Origin {
    return { source: { snapshot: { snapshot_id: this.id } }, checksum: this.#checksum };
  }

  /** Asserts that a volume made from it has the data of the cut. */
  async check(): Promise<void> {
    const copy = new TestVolume(this.#source.node, `${this.#name}-copy`, this.#source.content, this.#source.pool);
    copy.comesFrom(this.origin);
    await checkOnce(copy);
  }
}

/** A group snapshot, as its callers see it. */
export class TestGroup {
  readonly id: GroupId;
  readonly #name: string;
  readonly #node: CrashNode;
  readonly #sources: readonly [TestVolume, ...TestVolume[]];
  /** Of the first member's data at the moment of the cut. */
  #checksum: string | undefined;

  constructor(name: string, sources: readonly [TestVolume, ...TestVolume[]]) {
    this.#name = name;
    this.#sources = sources;
    this.#node = sources[0].node;
    this.id = groupIdFor(nodeId, name);
  }

  async create(): Promise<void> {
    this.#checksum = this.#sources[0].checksum;
    const { group_snapshot } = await this.#node.client.groupController.CreateVolumeGroupSnapshot({
      name: this.#name,
      source_volume_ids: this.#sources.map(({ id }) => id),
    });
    assert.equal(group_snapshot?.group_snapshot_id, this.id);
  }

  async delete(): Promise<void> {
    await this.#node.client.groupController.DeleteVolumeGroupSnapshot({
      group_snapshot_id: this.id,
      snapshot_ids: this.#sources.map((source) => this.#memberId(source)),
    });
  }

  /** Its first member. */
  get origin(): Origin {
    return { source: { snapshot: { snapshot_id: this.#memberId(this.#sources[0]) } }, checksum: this.#checksum };
  }

  /** Asserts that it has a member of each volume, with the data that the volume has. */
  async check(): Promise<void> {
    for (const source of this.#sources) {
      const copy = new TestVolume(this.#node, `${source.name}-copy`, source.content, source.pool);
      const snapshot = { snapshot_id: this.#memberId(source) };
      copy.comesFrom({ source: { snapshot }, checksum: source.checksum });
      await checkOnce(copy);
    }
  }

  /** As the answer to the call that makes the group gives it. */
  #memberId(source: TestVolume): string {
    return memberIdFor(this.id, source.id);
  }
}

/** A volume that lives only to have its data looked at. */
async function checkOnce(volume: TestVolume): Promise<void> {
  await volume.create();
  await volume.stage();
  await volume.publish();
  await volume.checkData();
  await volume.unpublish();
  await volume.unstage();
  await volume.delete();
}
