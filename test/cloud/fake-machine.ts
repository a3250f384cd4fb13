import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { detachLoopDevice, loopsOver } from '../support/left-behind.ts';
import type { FakeCloud, FakeVolume, Plugs } from './fake-cloud.ts';

const gibibyte = 2 ** 30;

/**
 * Machines of a fake cloud that are all this one: a volume is a sparse file, attached it is a loop device, and a link with its
 * serial number leads there.
 */
export class FakeMachines implements Plugs {
  readonly #cloud: FakeCloud;
  readonly #directory: string;

  constructor(cloud: FakeCloud, directory: string) {
    this.#cloud = cloud;
    this.#directory = directory;
    mkdirSync(directory, { recursive: true });
  }

  static at(cloud: FakeCloud, directory: string): FakeMachines {
    const machines = new FakeMachines(cloud, directory);
    cloud.plugs = {
      created: (volume) => machines.created(volume),
      deleted: (volume) => machines.deleted(volume),
      snapshotTaken: ({ id, volumeId }) => machines.copy(volumeId, id),
      plug: (volume, instance) => machines.plug(volume, instance),
      unplug: (volume, instance) => machines.unplug(volume, instance),
      resized: (volume) => machines.resized(volume),
    };
    return machines;
  }

  /** The links of a machine. */
  links(instance: string): string {
    const path = join(this.#directory, `links-${plain(instance)}`);
    mkdirSync(path, { recursive: true });
    return path;
  }

  file(id: string): string {
    return join(this.#directory, plain(id));
  }

  created({ id, sizeGiB, snapshotId }: FakeVolume): void {
    if (snapshotId === undefined) writeFileSync(this.file(id), '');
    else this.copy(snapshotId, id);
    truncateSync(this.file(id), sizeGiB * gibibyte);
  }

  copy(from: string, to: string): void {
    execFileSync('cp', ['--sparse=always', this.file(from), this.file(to)]);
  }

  deleted({ id }: Pick<FakeVolume, 'id'>): void {
    rmSync(this.file(id), { force: true });
  }

  plug({ id }: Pick<FakeVolume, 'id'>, instance: string): void {
    const device = execFileSync('losetup', ['--find', '--show', this.file(id)], { encoding: 'utf8' }).trim();
    symlinkSync(device, this.#link(id, instance));
  }

  unplug({ id }: Pick<FakeVolume, 'id'>, instance: string): void {
    rmSync(this.#link(id, instance), { force: true });
    for (const device of this.#loops(id)) detachLoopDevice(device);
  }

  resized({ id, sizeGiB }: Pick<FakeVolume, 'id' | 'sizeGiB'>): void {
    truncateSync(this.file(id), sizeGiB * gibibyte);
    for (const device of this.#loops(id)) execFileSync('losetup', ['--set-capacity', device]);
  }

  #link(id: string, instance: string): string {
    return join(this.links(instance), this.#cloud.serialOf(id));
  }

  #loops(id: string): string[] {
    return loopsOver(this.#directory).filter((device) => {
      const [, file = ''] = execFileSync('losetup', ['--noheadings', '--output', 'NAME,BACK-FILE', device], {
        encoding: 'utf8',
      })
        .trim()
        .split(/\s+/);
      return file === this.file(id);
    });
  }
}

/** A name for a file: ids of some clouds are paths. */
function plain(id: string): string {
  return id.replaceAll('/', '_');
}
