import { allowsSeveralTargets, type VolumeCapability } from '../volume/capability.ts';
import { AlreadyExists, FailedPrecondition, InvalidArgument } from '../volume/errors.ts';
import type { VolumeHandle } from '../volume/handle.ts';
import { shortPath } from '../volume/short-path.ts';
import { type AttributeState, hasAttributes, type WantedAttributes } from './mount-options.ts';

/*
 * Decisions from observed facts. Pure: the same facts always give the same decision, so every one of them can stand
 * in a table of tests.
 */

/** The object at a path where a volume is, or will be, mounted. */
export type Occupant =
  | { readonly kind: 'nothing' }
  /** Nothing is mounted there. */
  | { readonly kind: 'directory' | 'file'; readonly isEmpty: boolean }
  /** Neither a directory nor a plain file: nothing that we would make or remove. */
  | { readonly kind: 'other' }
  | MountedOccupant;

/** The mount at a path: the uppermost of the mounts there. */
export interface MountedOccupant {
  readonly kind: 'mount';
  /** The volume whose device this is; undefined: none of ours. */
  readonly volumeId: VolumeHandle | undefined;
  /** A device node stands there instead of a filesystem. */
  readonly access: 'block' | 'mount';
  /** The whole volume, not a directory in it; always so for a device node. */
  readonly isWhole: boolean;
  /** For a device node `readonly` says whether the device takes writes; the rest means nothing to it. */
  readonly attributes: AttributeState;
  /** True if a mount of the same volume lies hidden below the uppermost one, at the same path. */
  readonly coversOwn: boolean;
}

/** The wanted mount of a volume at a path. */
export interface WantedMount {
  readonly access: 'block' | 'mount';
  readonly attributes: WantedAttributes;
}

/** The comparison with the note on an earlier stage: no note (`unknown`), or the same capability, or a different one. */
export type Noted = 'same' | 'different' | 'unknown';

export interface StageFacts {
  readonly volumeId: VolumeHandle;
  readonly path: string;
  readonly wanted: WantedMount;
  /** At the staging path, or for a block volume at our file in it. */
  readonly at: Occupant;
  readonly noted: Noted;
  /** Where the volume is staged already, if that is another path. */
  readonly stagedElsewhere: string | undefined;
}

/** `restore`: the mount there shows a device that no longer exists, and is removed first (ST10). */
export type StagePlan = 'nothing' | 'mount' | 'restore';

/** @throws AlreadyExists (ST06, PB18), FailedPrecondition */
export function planStage(facts: StageFacts): StagePlan {
  const { at, path, volumeId, wanted } = facts;
  if (at.kind === 'mount') {
    // Our own file, named by the volume's id.
    if (wanted.access === 'block' && isStaleDevice(at)) return 'restore';
    if (at.volumeId !== volumeId) throw otherMount(volumeId, path, at);
    if (facts.noted === 'different' || !isStagedAs(at, wanted)) throw otherArguments(volumeId, 'staged', path);
    return 'nothing';
  }
  if (facts.stagedElsewhere !== undefined) {
    throw new FailedPrecondition(
      `volume ${volumeId} is staged at ${shortPath(facts.stagedElsewhere)}: a volume has one staging path on a node. Unstage it there first.`,
    );
  }
  refuseForeignData(volumeId, path, at, wanted.access);
  return 'mount';
}

export interface UnstageFacts {
  /** In the form that came: an id of the wrong shape is just no volume of ours. */
  readonly volumeId: string;
  readonly path: string;
  readonly at: Occupant;
  /** Where else in this mount namespace the volume can be seen. */
  readonly publishedAt: readonly string[];
}

/** The decision about a mount. */
export type UnstagePlan = 'nothing' | 'unmount';

/** @throws FailedPrecondition while the volume is published (US06), or hidden below another mount */
export function planUnstage({ at, path, publishedAt, volumeId }: UnstageFacts): UnstagePlan {
  const [published] = publishedAt;
  if (published !== undefined) {
    throw new FailedPrecondition(
      `volume ${volumeId} is still published at ${shortPath(published)}${publishedAt.length > 1 ? ` and ${publishedAt.length - 1} other places` : ''}: unpublish it there first.`,
    );
  }
  // For a block volume this is our own file, named by the volume's id: whatever device it shows, it is ours.
  return planUndo(volumeId, path, at, true);
}

export interface PublishFacts {
  readonly volumeId: VolumeHandle;
  readonly path: string;
  readonly stagingPath: string;
  readonly capability: VolumeCapability;
  readonly wanted: WantedMount;
  readonly at: Occupant;
  /** At the staging path, or for a block volume at our file in it. */
  readonly staged: Occupant;
  /** The wanted mount there of a volume that is staged with this capability. */
  readonly wantedStaged: WantedMount;
  /** The comparison with the note: a volume that was staged with this capability was published with no other. */
  readonly noted: Noted;
  /** Where else, besides its staging path, the volume can be seen. */
  readonly publishedAt: readonly string[];
  /** Where else a device of the volume can be seen that takes writes, if this one is not to, or the other way round. */
  readonly publishedOtherwise: readonly string[];
}

export type PublishPlan = 'nothing' | 'make-target' | 'use-target';

/** @throws FailedPrecondition (PB06, PB08, PB09, PB10, PB13), AlreadyExists (PB07, PB18), InvalidArgument */
export function planPublish(facts: PublishFacts): PublishPlan {
  const { at, capability, path, staged, stagingPath, volumeId, wanted } = facts;
  if (path === stagingPath) throw new InvalidArgument('target_path and staging_target_path are the same.');
  if (staged.kind !== 'mount' || staged.volumeId !== volumeId || staged.access !== wanted.access) {
    throw new FailedPrecondition(`volume ${volumeId} is not staged at ${shortPath(stagingPath)}: stage it first.`);
  }
  if (at.kind === 'mount') {
    if (at.volumeId !== volumeId) throw otherMount(volumeId, path, at);
    if (facts.noted === 'different' || !shows(at, wanted)) throw otherArguments(volumeId, 'published', path);
    return 'nothing';
  }
  // Without a note the mount itself tells as much as it can.
  const stagedOtherwise = facts.noted === 'unknown' && !isStagedAs(staged, facts.wantedStaged);
  if (facts.noted === 'different' || stagedOtherwise) {
    throw new FailedPrecondition(
      `volume ${volumeId} is staged at ${shortPath(stagingPath)} with another volume_capability: use the same one, or unstage it first.`,
    );
  }
  const [other] = facts.publishedAt;
  if (other !== undefined && !allowsSeveralTargets(capability.mode)) {
    throw new FailedPrecondition(
      `volume ${volumeId} is published at ${shortPath(other)}, and ${capability.mode} allows one pod at a time: end that one first.`,
    );
  }
  const [otherwise] = facts.publishedOtherwise;
  if (otherwise !== undefined) {
    const how = wanted.attributes.readonly ? 'writable' : 'read-only';
    throw new FailedPrecondition(
      `volume ${volumeId} is published ${how} at ${shortPath(otherwise)}, and a block volume is writable or read-only for all pods at a time: end that one first.`,
    );
  }
  refuseForeignData(volumeId, path, at, wanted.access);
  return at.kind === 'nothing' ? 'make-target' : 'use-target';
}

export type EphemeralFacts = Pick<PublishFacts, 'at' | 'noted' | 'path' | 'volumeId' | 'wanted'>;

/** For a volume that its publish makes: `noted` tells whether it was made for a publish with the same arguments. */
export function planEphemeral({ at, noted, path, volumeId, wanted }: EphemeralFacts): PublishPlan {
  if (at.kind === 'mount') {
    if (at.volumeId !== volumeId) throw otherMount(volumeId, path, at);
    if (noted !== 'same' || !shows(at, wanted)) throw otherArguments(volumeId, 'published', path);
    return 'nothing';
  }
  refuseForeignData(volumeId, path, at, wanted.access);
  return at.kind === 'nothing' ? 'make-target' : 'use-target';
}

export interface UnpublishFacts {
  /** In the form that came: an id of the wrong shape is just no volume of ours. */
  readonly volumeId: string;
  readonly path: string;
  readonly at: Occupant;
  /** The volume is staged at this very path, not published. */
  readonly isStagingPath: boolean;
  /** A note says that the volume has been staged since the node started: it may have been published. */
  readonly isNoted: boolean;
}

/** `leave`: another volume, or something that is none of ours, is mounted there (UP07). */
export type UnpublishPlan = 'nothing' | 'leave' | 'unmount' | 'remove-directory' | 'remove-file';

/** @throws FailedPrecondition for what only a person can clear away (UP06) */
export function planUnpublish({ at, isNoted, isStagingPath, path, volumeId }: UnpublishFacts): UnpublishPlan {
  if (isStagingPath) {
    throw new FailedPrecondition(
      `volume ${volumeId} is staged at ${shortPath(path)}, not published: that is for NodeUnstageVolume.`,
    );
  }
  switch (at.kind) {
    case 'nothing':
      return 'nothing';
    case 'mount':
      return planUndo(volumeId, path, at, isNoted) === 'unmount' ? 'unmount' : 'leave';
    case 'directory':
    case 'file':
      if (at.isEmpty) return at.kind === 'directory' ? 'remove-directory' : 'remove-file';
      throw new FailedPrecondition(
        `volume ${volumeId} is not mounted at ${shortPath(path)}, but there is data that is not the volume's: move it away.`,
      );
    case 'other':
      throw new FailedPrecondition(
        `volume ${volumeId}: ${shortPath(path)} is neither a directory nor a plain file: remove it.`,
      );
  }
}

/** @param ownsStaleDevice whether a device node there is ours even if its device belongs to no volume any more */
function planUndo(volumeId: string, path: string, at: Occupant, ownsStaleDevice: boolean): 'nothing' | 'unmount' {
  if (at.kind !== 'mount') return 'nothing';
  if (at.volumeId === volumeId || (ownsStaleDevice && isStaleDevice(at))) return 'unmount';
  if (!at.coversOwn) return 'nothing';
  throw new FailedPrecondition(
    `volume ${volumeId}: something else is mounted over it at ${shortPath(path)}: unmount that first (umount).`,
  );
}

/** A node of a device that has been detached behind our back. */
function isStaleDevice(at: MountedOccupant): boolean {
  return at.access === 'block' && at.volumeId === undefined;
}

function shows(at: MountedOccupant, wanted: WantedMount): boolean {
  if (at.access !== wanted.access || !at.isWhole) return false;
  if (wanted.access === 'block') return at.attributes.readonly === wanted.attributes.readonly;
  return hasAttributes(at.attributes, wanted.attributes);
}

/** The staged device may refuse writes or not, depending on how it is published. */
function isStagedAs(at: MountedOccupant, wanted: WantedMount): boolean {
  return wanted.access === 'block' ? at.access === 'block' : shows(at, wanted);
}

function refuseForeignData(volumeId: VolumeHandle, path: string, at: Occupant, access: 'block' | 'mount'): void {
  const fits = access === 'mount' ? 'directory' : 'file';
  if (at.kind === 'nothing' || at.kind === 'mount') return;
  if (at.kind !== fits) {
    throw new AlreadyExists(`volume ${volumeId} cannot be put at ${shortPath(path)}, which is no ${fits}: remove it.`);
  }
  if (!at.isEmpty) {
    throw new AlreadyExists(`volume ${volumeId} would hide data that lies at ${shortPath(path)}: move it away.`);
  }
}

function otherMount(volumeId: VolumeHandle, path: string, at: MountedOccupant): AlreadyExists {
  const what = at.volumeId === undefined ? 'something foreign' : `volume ${at.volumeId}`;
  return new AlreadyExists(
    `volume ${volumeId} cannot be put at ${shortPath(path)}, where ${what} is mounted: unmount that first.`,
  );
}

function otherArguments(volumeId: VolumeHandle, done: string, path: string): AlreadyExists {
  return new AlreadyExists(
    `volume ${volumeId} is ${done} at ${shortPath(path)} already, with other arguments. Undo that first.`,
  );
}
