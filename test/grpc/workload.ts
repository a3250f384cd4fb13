import assert from 'node:assert/strict';
import { closeSync, constants, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { parseVolumeId } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { TestVolume } from '../support/life.ts';
import { create, type TestDriver, volumeOf } from './controller-driver.ts';

/** A volume in use: published at `path`, as a directory or a device, until it is disposed of. */
export interface Workload extends AsyncDisposable {
  readonly id: string;
  readonly volume: wire.Volume;
  readonly path: string;
}

/** Makes a volume, stages and publishes it as a container orchestrator would. */
export async function workload(
  driver: TestDriver,
  name: string,
  capability: Draft<wire.VolumeCapability>,
  changes: Draft<wire.CreateVolumeRequest> = {},
): Promise<Workload> {
  const request = create(name, { volume_capabilities: [capability], ...changes });
  const volume = volumeOf(await driver.controller.CreateVolume(request));
  const place = new TestVolume(driver.scratch, name, capability);
  await place.stage(driver.client, volume.volume_id);
  await place.publish(driver.client, volume.volume_id);
  return {
    id: volume.volume_id,
    volume,
    path: place.targetPath,
    async [Symbol.asyncDispose]() {
      await place.unpublish(driver.client, volume.volume_id);
      await place.unstage(driver.client, volume.volume_id);
      await released(driver, volume.volume_id);
    },
  };
}

/** Waits until nothing has the volume's device open: somebody else on the machine may be looking at it (udev, say). */
export async function released(driver: TestDriver, volumeId: string): Promise<void> {
  const id = parseVolumeId(volumeId);
  const found = id && (await driver.pools.find(id));
  if (found) await eventually(async () => assert.deepEqual(await found.pool.attached(found.record.id), []));
}

/** Writes to a file or device, durably. */
export function write(path: string, data: Buffer, offset = 0): void {
  const file = openSync(path, constants.O_RDWR | constants.O_CREAT);
  try {
    writeSync(file, data, 0, data.length, offset);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

export function read(path: string, lengthBytes: number, offset = 0): Buffer {
  const data = Buffer.alloc(lengthBytes);
  const file = openSync(path, 'r');
  try {
    readSync(file, data, 0, lengthBytes, offset);
  } finally {
    closeSync(file);
  }
  return data;
}
