import { createHash } from 'node:crypto';
import { InvalidArgument } from '../../volume/errors.ts';
import { TurnsByKey } from '../../volume/flow/turns.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { PublishContext, Publisher } from '../pool.ts';
import { firstUseContext } from '../publish-context.ts';
import { type AttachPlace, attachDisk, detachDisk, EndedAttachments } from './attachments.ts';
import type { PoolDisks } from './disks.ts';

const used = 'used';

/** Has the cloud attach volumes to machines. */
export class CloudPublisher implements Publisher {
  readonly #disks: PoolDisks;
  /** By the cloud's id: of volumes that people name there is no other order. */
  readonly #turns = new TurnsByKey<string>();
  readonly #place: AttachPlace;

  constructor(disks: PoolDisks) {
    this.#disks = disks;
    this.#place = { ...disks.place, ended: new EndedAttachments() };
  }

  async requireNode(nodeId: string): Promise<void> {
    await this.#disks.place.cloud.requireInstance(nodeId);
  }

  async publish(record: VolumeRecord, nodeId: string): Promise<PublishContext> {
    const { id } = await this.#disks.require(record.id);
    return await this.#turns.run(id, async () => {
      const wanted = { handle: record.id, diskId: id, look: () => this.#disks.find(record.id) };
      await attachDisk(this.#place, wanted, nodeId);
      const isFirstUse = await this.#noteUse(record, nodeId);
      return isFirstUse ? firstUseContext : {};
    });
  }

  async unpublish(volumeId: VolumeId, nodeId: string | undefined): Promise<void> {
    const shown = await this.#disks.find(volumeId);
    // One that lost its labels since is detached, too.
    const disk = shown ?? this.#disks.lastSeen(volumeId);
    if (disk === undefined) return;
    await this.#turns.run(disk.id, async () => {
      // Before it can be at another machine.
      const { fresh } = this.#disks.place.names;
      const note = shown && this.#disks.lastSeen(volumeId)?.labels[fresh];
      if (note !== undefined && note !== used) await this.#disks.label(volumeId, { [fresh]: used });
      await detachDisk(this.#place, volumeId, disk.id, nodeId);
    });
  }

  isPublished(volumeId: VolumeId, nodeId: string): boolean {
    const disk = this.#disks.lastSeen(volumeId);
    return disk === undefined || disk.attachments.some(({ instance }) => instance === nodeId);
  }

  reaches(handle: string): boolean {
    return this.#disks.place.cloud.isDiskId(handle);
  }

  async publishProvided(handle: string, nodeId: string): Promise<PublishContext> {
    const { cloud, names } = this.#disks.place;
    return await this.#turns.run(handle, async () => {
      const volumeId = (await cloud.disk(handle))?.labels[names.volume];
      if (volumeId !== undefined) {
        throw new InvalidArgument(
          `volume ${handle}: its labels say that it is volume ${volumeId} of this driver: give the PersistentVolume that volumeHandle.`,
        );
      }
      await attachDisk(this.#place, { handle, diskId: handle, look: () => cloud.disk(handle) }, nodeId);
      return {};
    });
  }

  async unpublishProvided(handle: string, nodeId: string | undefined): Promise<void> {
    await this.#turns.run(handle, () => detachDisk(this.#place, handle, handle, nodeId));
  }

  /**
   * Durable before the answer, without which no node touches the volume. It is formatted by the first machine that has it,
   * and by no other: a device that looks blank somewhere else may be a mistake.
   * @returns whether this machine may format it
   */
  async #noteUse({ content, id }: VolumeRecord, nodeId: string): Promise<boolean> {
    if (content.type !== 'mount') return false;
    const { fresh } = this.#disks.place.names;
    const note = await this.#disks.labelOf(id, fresh, used);
    if (note === used) return false;
    // A machine that was made again under its name has lost its notes.
    const machine = await this.#disks.place.cloud.requireInstance(nodeId);
    const here = createHash('sha256').update(machine).digest('hex').slice(0, 32);
    if (note === undefined) await this.#disks.label(id, { [fresh]: here });
    return note === undefined || note === here;
  }
}
