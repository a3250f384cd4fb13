import { volumeIdFor } from '../../../src/volume/id.ts';
import { type GuestNode, nodeId } from './guest-node.ts';
import { type Content, GuestVolume } from './guest-volume.ts';

const sizeBytes = 32n << 20n;
let count = 0;

/** A volume that is not there yet. */
export function newVolume(node: GuestNode, pool: string, content: Content = 'ext4'): GuestVolume {
  const name = `volume-${count++}`;
  return new GuestVolume(node, volumeIdFor(nodeId, pool, name), { name, content, pool });
}

/** A volume that is made and used. */
export async function usedVolume(node: GuestNode, pool: string, content: Content = 'ext4'): Promise<GuestVolume> {
  const volume = newVolume(node, pool, content);
  await volume.create(sizeBytes);
  await volume.use();
  return volume;
}

/** How long whole lives of volumes take in a pool, one after another: their median. */
export async function medianLifeMs(node: GuestNode, pool: string, lives: number): Promise<number> {
  const times: number[] = [];
  for (let life = 0; life < lives; life++) {
    const startedMs = performance.now();
    const volume = await usedVolume(node, pool);
    await volume.leave();
    await volume.delete();
    times.push(performance.now() - startedMs);
  }
  return times.sort((a, b) => a - b)[times.length >> 1] ?? 0;
}
