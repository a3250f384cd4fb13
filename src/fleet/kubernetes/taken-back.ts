import { z } from 'zod';
import { FailedPrecondition, ResourceExhausted, Unavailable } from '../../volume/errors.ts';
import type { KubernetesApi } from './api.ts';
import { SecretNotes } from './secret-notes.ts';
import type { ObjectPlace } from './stored-object.ts';

const ordered = z.object({
  node: z.string().describe('the node whose copy became the volume again'),
  lostNode: z.string().describe('the node that had the volume, or may have had it'),
  at: z.iso.datetime(),
});

const confirmed = ordered.extend({
  generation: z.int().positive().describe('of that copy'),
  createdAt: z
    .string()
    .optional()
    .describe('when the volume was made; undefined: a driver that is older has not said it'),
});

const schema = confirmed.extend({
  generation: confirmed.shape.generation.optional().describe('undefined: it is not sure that it is the volume'),
  earlier: confirmed.optional().describe('stands as long as that is not sure'),
  deleted: confirmed
    .optional()
    .describe('of a volume that had the id before, and was deleted: its copies are used no more either'),
  deletedBefore: z.array(confirmed).optional().describe('of those that had it before that one, the last one first'),
  words: z.int().positive().optional().describe('the number of notes since that one of which none became sure'),
  isRenewed: z
    .literal(true)
    .optional()
    .describe('an order before it, to the same node, may be carried out yet: that node is asked a minute later'),
  replaced: z
    .array(ordered)
    .optional()
    .describe(
      'those notes: the last one stands again if this one is dropped. An earlier controller has kept their number only',
    ),
});

function notesIn(api: KubernetesApi, place: ObjectPlace) {
  return new SecretNotes({ api, place, key: 'taken-back', schema });
}

/** Limit of all notes, those that were replaced among them: they take 300 KiB of the Secret, which may have 1 MiB. */
const maxNotes = 2_000;

/** Limit of the notes of one volume that were replaced. One whose node answers goes a minute later. */
const maxReplaced = 16;

/** Limit of the notes of volumes that had the id of one before, and were deleted. Kubernetes gives each volume a new name. */
const maxDeleted = 8;

/** Time after which an order to take a volume back is carried out no more: its node looks at the deadline of the call. */
export const takingBackMs = 60_000;

/** A volume that was taken back from a lost node by the word of an operator. */
export type TakenBack = z.infer<typeof schema>;

/** One of which that is sure. */
export type ConfirmedTakenBack = z.infer<typeof confirmed>;

/** @returns the note by which other copies are earlier ones; undefined: none is sure */
export function sureNote(note: TakenBack): ConfirmedTakenBack | undefined {
  const { generation } = note;
  return generation === undefined ? note.earlier : { ...note, generation };
}

/** @returns the notes of volumes that had the id before, and were deleted, the last one first */
export function deletedNotes({ deleted, deletedBefore = [] }: TakenBack): ConfirmedTakenBack[] {
  return deleted === undefined ? [] : [deleted, ...deletedBefore];
}

function asDeleted([deleted, ...before]: readonly ConfirmedTakenBack[]): Pick<TakenBack, 'deleted' | 'deletedBefore'> {
  const deletedBefore = before.slice(0, maxDeleted - 1);
  return { ...(deleted && { deleted }), ...(deletedBefore.length > 0 && { deletedBefore }) };
}

/** @throws Unavailable */
export async function readTakenBack(api: KubernetesApi, place: ObjectPlace): Promise<ReadonlyMap<string, TakenBack>> {
  return notesIn(api, place).read();
}

export interface TakingBack extends Pick<TakenBack, 'lostNode' | 'node'> {
  readonly volumeId: string;
  /** The time of a note of another node which has said since that its copy is not the volume. */
  readonly asked?: string | undefined;
  /** The copy's, if it becomes later than itself alone; undefined: later than each of which there is a note. */
  readonly generation?: number | undefined;
  /**
   * The copy's, if it becomes later than each of which there is a note: of the nodes that are not lost, none may have taken back a later one.
   * undefined: a driver that is older has not said it.
   */
  readonly leftGeneration?: number | undefined;
  /** True for a node that never comes back. */
  readonly isLost?: ((node: string) => boolean) | undefined;
  /** When the volume of that copy was made, in RFC 3339; undefined: a driver that is older has not said it. */
  readonly createdAt?: string | undefined;
}

/**
 * Notes that a node is about to take a volume back.
 * @returns the note
 * @throws Unavailable while another node may be doing that, FailedPrecondition, ResourceExhausted
 */
export async function noteTakingBack(
  api: KubernetesApi,
  place: ObjectPlace,
  { asked, createdAt, generation, isLost, leftGeneration, lostNode, node, volumeId }: TakingBack,
): Promise<TakenBack> {
  const nowMs = Date.now();
  let note: TakenBack = { node, lostNode, at: new Date(nowMs).toISOString() };
  await notesIn(api, place).change((notes) => {
    const before = notes.get(volumeId);
    const unsure = before?.generation === undefined ? before : undefined;
    const isFull = (unsure?.replaced?.length ?? 0) >= maxReplaced;
    // A copy that becomes later than itself alone is later than each that the same node had before.
    const isAgain = unsure?.node === node && unsure.lostNode === lostNode && (generation !== undefined || isFull);
    const followed = unsure && (isAgain ? renewing(unsure) : replacing(unsure));
    note = {
      ...note,
      earlier: before && sureNote(before),
      ...(before && asDeleted(deletedNotes(before))),
      ...followed,
    };
    const isOther = before !== undefined && before.node !== node && before.generation === undefined;
    // The clocks of the replicas differ: the node is asked as well. One that is lost does nothing any more.
    const isAsked = before !== undefined && (before.at === asked || before.node === lostNode);
    if (isOther && (!isAsked || nowMs - Date.parse(before.at) < takingBackMs)) {
      throw new Unavailable(
        `Node ${before.node} may be taking volume ${volumeId} back just now: try again in a minute.`,
      );
    }
    requireLatest(volumeId, note, { createdAt, generation, isLost, leftGeneration });
    if ((note.replaced?.length ?? 0) > maxReplaced) {
      throw new Unavailable(
        `Nodes were ordered ${maxReplaced} times to take volume ${volumeId} back, and have not said how that has ended: try again in some minutes.`,
      );
    }
    // A note that is dropped would let a node come back with a copy that is used beside this one.
    if ((before === undefined || (unsure !== undefined && !isAgain)) && countOf(notes) >= maxNotes) {
      throw new ResourceExhausted(
        `volume ${volumeId} is not taken back: Secret ${place.name} has notes of ${maxNotes} volumes that were, and no more fit. Remove those from its taken-back whose volumes are deleted, or whose lostNode never comes back.`,
      );
    }
    notes.set(volumeId, note);
    return true;
  });
  return note;
}

/** The note before it is not sure: it may have made a copy the volume. */
function replacing({ at, lostNode, node, replaced = [], words = 0 }: TakenBack): Pick<TakenBack, 'replaced' | 'words'> {
  return { words: words + 1, replaced: [...replaced, { node, lostNode, at }] };
}

/** The same order again. */
function renewing({ replaced, words }: TakenBack): Pick<TakenBack, 'isRenewed' | 'replaced' | 'words'> {
  return { isRenewed: true, words, replaced };
}

/** @throws FailedPrecondition, Unavailable if a copy of that generation may be an earlier one than one that was taken back */
function requireLatest(
  volumeId: string,
  { earlier, lostNode, node, replaced = [], words = 0 }: TakenBack,
  {
    createdAt,
    generation,
    isLost = () => false,
    leftGeneration,
  }: Pick<TakingBack, 'createdAt' | 'generation' | 'isLost' | 'leftGeneration'>,
): void {
  const own = generation ?? leftGeneration;
  if (earlier !== undefined && isOfLaterVolume(earlier, createdAt)) {
    throw new FailedPrecondition(
      `volume ${volumeId} was made again since the one of this copy, and node ${earlier.node} has taken that back: the copy on node ${node} is of a volume that was deleted.`,
    );
  }
  const isEarlier =
    earlier !== undefined && isOfSameVolume(earlier, createdAt) && (own === undefined || earlier.generation > own);
  if (generation !== undefined && isEarlier) {
    throw new FailedPrecondition(
      `volume ${volumeId} was taken back by node ${earlier.node}: the copy on node ${node} is an earlier one.`,
    );
  }
  // The word makes that copy later than all which the node has that is named in it, and no other one.
  const isPassedOver = (name: string) => name !== node && name !== lostNode && !isLost(name);
  if (isEarlier && isPassedOver(earlier.node)) {
    throw new FailedPrecondition(
      `volume ${volumeId} was taken back by node ${earlier.node}, and the copy on node ${node} is ${own === undefined ? 'not known to be a later one' : 'an earlier one'}. Have the disk of node ${earlier.node} there again. If that node never comes back: kubectl holdfast forget-node ${earlier.node}, and then this command again.`,
    );
  }
  const other = replaced.find((each) => (generation === undefined ? isPassedOver(each.node) : each.node !== node));
  const isUnnamed = generation !== undefined && words > replaced.length;
  if (other === undefined && !isUnnamed) return;
  const way =
    generation === undefined
      ? `, with all pools of that node open. If it never comes back: kubectl holdfast forget-node ${other?.node}, and then this command again`
      : `. If it never does: kubectl holdfast forget-node ${lostNode}, and then --node-is-lost ${lostNode}`;
  throw new Unavailable(
    `${other === undefined ? 'A node' : `Node ${other.node}`} may have taken volume ${volumeId} back, and has not said so: try again in a minute${way}.`,
  );
}

/** The note that a node has taken the volume of a copy back since, which is a later one there; undefined: none that is sure. */
export function takenBackSince(
  note: TakenBack | undefined,
  node: string,
  { createdAt, generation }: SeenGeneration,
): ConfirmedTakenBack | undefined {
  const sure = note && sureNote(note);
  if (sure?.node !== node || !isOfSameVolume(sure, createdAt)) return undefined;
  return sure.generation > generation ? sure : undefined;
}

/** Also where that is not known: a copy that is refused harms nothing. */
function isOfSameVolume({ createdAt }: ConfirmedTakenBack, other: string | undefined): boolean {
  return createdAt === undefined || other === undefined || createdAt === other;
}

/** True if the note is of a volume that has that id since one that was made at that time was deleted, by the clocks of their nodes. */
function isOfLaterVolume(earlier: ConfirmedTakenBack, other: string | undefined): boolean {
  const { createdAt } = earlier;
  if (isOfSameVolume(earlier, other) || createdAt === undefined || other === undefined) return false;
  return Date.parse(createdAt) > Date.parse(other);
}

function countOf(notes: ReadonlyMap<string, TakenBack>): number {
  return [...notes.values()].reduce(
    (count, { deletedBefore = [], replaced = [] }) => count + 1 + replaced.length + deletedBefore.length,
    0,
  );
}

type SeenGeneration = Pick<ConfirmedTakenBack, 'createdAt' | 'generation'>;

/** The word of a node about its copy, after the order to take it back. */
export interface SeenCopy extends SeenGeneration {
  readonly isVolume: boolean;
  readonly elsewhere?: string | undefined;
  /** False: all pools of the node are open, and none has a copy. */
  readonly isHere?: boolean | undefined;
  /** False: it has no note of the volume; undefined: it was not asked. */
  readonly isNoted?: boolean | undefined;
}

/**
 * Confirms a note, or drops it, by the copy of its node. It stays if that shows neither.
 * @returns the note that stands then
 * @throws Unavailable
 */
export async function settleTakenBack(
  api: KubernetesApi,
  place: ObjectPlace,
  volumeId: string,
  { note, seen }: { readonly note: TakenBack; readonly seen: SeenCopy },
): Promise<TakenBack | undefined> {
  const { createdAt, generation } = seen;
  const wasTaken = wasTakenBack(note, seen);
  if (wasTaken === undefined) return note;
  if (!wasTaken) return dropTakenBack(api, place, volumeId, note);
  return confirmTakenBack(api, place, volumeId, { at: note.at, createdAt, generation });
}

/** @returns undefined: the copy does not show it */
function wasTakenBack(
  { earlier, lostNode }: TakenBack,
  { createdAt, elsewhere, generation, isHere, isNoted, isVolume }: SeenCopy,
): boolean | undefined {
  // A copy that is taken back has a later generation than any that was handed over.
  if (isVolume) return generation > 0;
  // A node notes that it takes a volume back before it does.
  if (elsewhere === undefined) return isHere === false && isNoted === false ? false : undefined;
  // It may have gone on from there since.
  const before = earlier !== undefined && isOfSameVolume(earlier, createdAt) ? earlier.generation : 0;
  return elsewhere !== lostNode && generation > before;
}

/** The volume was taken back, and other copies of it are earlier ones. A later note stays. @throws Unavailable */
export async function confirmTakenBack(
  api: KubernetesApi,
  place: ObjectPlace,
  volumeId: string,
  { at, createdAt, generation }: Pick<ConfirmedTakenBack, 'at' | 'createdAt' | 'generation'>,
): Promise<TakenBack | undefined> {
  const standing = await notesIn(api, place).change((notes) => {
    const note = notes.get(volumeId);
    if (note?.at !== at || note.generation !== undefined) return false;
    const { earlier, lostNode, node } = note;
    const isOther = earlier !== undefined && !isOfSameVolume(earlier, createdAt);
    const deleted = asDeleted([...(isOther ? [earlier] : []), ...deletedNotes(note)]);
    notes.set(volumeId, { at, createdAt, generation, lostNode, node, ...deleted });
    return true;
  });
  return standing.get(volumeId);
}

/** The volume was not taken back. A later note stays, and the one before it counts again. @throws Unavailable */
export async function dropTakenBack(
  api: KubernetesApi,
  place: ObjectPlace,
  volumeId: string,
  { at }: Pick<TakenBack, 'at'>,
): Promise<TakenBack | undefined> {
  const standing = await notesIn(api, place).change((notes) => {
    const note = notes.get(volumeId);
    if (note?.at !== at || note.generation !== undefined) return false;
    const { earlier, replaced = [], words = 0 } = note;
    const deleted = asDeleted(deletedNotes(note));
    const last = replaced.at(-1);
    // An earlier controller has replaced another one, and that may have made a copy the volume: this one counts for it.
    if (last === undefined && words > 0) return false;
    if (last !== undefined) {
      const rest = words > 1 ? { words: words - 1, replaced: replaced.slice(0, -1) } : {};
      notes.set(volumeId, { ...last, earlier, ...deleted, ...rest });
    } else if (earlier === undefined) notes.delete(volumeId);
    else notes.set(volumeId, { ...earlier, ...deleted });
    return true;
  });
  return standing.get(volumeId);
}
