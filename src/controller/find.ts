import { NotFound } from '../volume/errors.ts';
import { parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../volume/id.ts';

/** @throws NotFound for text that cannot be an id of ours: a path, for example, gets no further than this */
export function requireVolumeId(text: string): VolumeId {
  const id = parseVolumeId(text);
  if (id === undefined) throw new NotFound(`There is no volume ${JSON.stringify(text)} on this node.`);
  return id;
}

/** @throws NotFound for text that cannot be an id of ours */
export function requireSnapshotId(text: string): SnapshotId {
  const id = parseSnapshotId(text);
  if (id === undefined) throw new NotFound(`There is no snapshot ${JSON.stringify(text)} on this node.`);
  return id;
}
