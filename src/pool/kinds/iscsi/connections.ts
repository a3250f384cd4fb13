import { z } from 'zod';
import { type IscsiLun, type IscsiSession, iscsiSessions } from '../../../kernel/block/iscsi.ts';
import { type ConnectionNote, type NoteFormat, noteFields } from '../../network-disk/connection-notes.ts';
import { isSamePortal } from '../../network-disk/portals.ts';
import { TargetStates } from '../../network-disk/target-state.ts';
import type { IscsiContext } from './context.ts';
import { ifaceName } from './record.ts';

/** A session that this driver makes, or has made. */
export interface Connection {
  readonly address: string;
  readonly port: string;
  /** The number of the session, which the kernel gives no other until the next boot; undefined: it may not be made yet. */
  readonly session?: number | undefined;
}

export type IscsiNote = ConnectionNote<Connection>;

export const noteFormat: NoteFormat<Connection> = {
  targetKey: 'iqn',
  schema: z.strictObject({
    ...noteFields,
    iqn: z.string(),
    connections: z.array(z.strictObject({ address: z.string(), port: z.string(), session: z.int().optional() })),
    identities: z.record(z.string(), z.string()).optional(),
  }),
  step: 'iscsi/note',
};

export const targets = new TargetStates('iscsi', noteFormat);

/** A session by this driver's name, which it may have made. */
export function isNamedOurs({ ifaceName: name }: Pick<IscsiSession, 'ifaceName'>): boolean {
  return name === ifaceName;
}

/** Answers if this driver has made a session. One with another number was made later, or by another program. */
export function isOurs({ connections }: Pick<IscsiNote, 'connections'>, session: IscsiSession): boolean {
  const { id, portal } = session;
  if (!isNamedOurs(session) || portal === undefined) return false;
  return connections.some((each) => isSamePortal(each, portal) && (each.session ?? id) === id);
}

type Place = Pick<IscsiContext, 'lun' | 'portals'>;

/** Answers if a volume may be reached through a session. */
export function isThrough({ portals }: Pick<Place, 'portals'>, { portal }: IscsiSession): boolean {
  return portal !== undefined && portals.some((each) => isSamePortal(each, portal));
}

/** The devices at a volume's place, through the sessions that are given. */
export function lunsOf(sessions: readonly IscsiSession[], place: Place): IscsiLun[] {
  return sessions
    .filter((each) => isThrough(place, each))
    .flatMap(({ luns }) => luns.filter(({ lun }) => lun === place.lun));
}

/** This driver's sessions to a target. */
export function ourSessions(iqn: string, note: Pick<IscsiNote, 'connections'>): IscsiSession[] {
  return iscsiSessions(iqn).filter((each) => isOurs(note, each));
}
