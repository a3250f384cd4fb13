import { z } from 'zod';
import type { NvmeController } from '../../../kernel/block/nvme.ts';
import { type ConnectionNote, type NoteFormat, noteFields } from '../../network-disk/connection-notes.ts';
import { TargetStates } from '../../network-disk/target-state.ts';

/** A connection that this driver makes, or has made. */
export interface Connection {
  readonly traddr: string;
  readonly trsvcid: string;
  readonly hostNqn: string;
  /** The name of its controller, `nvme3`; undefined: it may not be made yet. */
  readonly controller?: string | undefined;
}

export type SubsystemNote = ConnectionNote<Connection>;

export const noteFormat: NoteFormat<Connection> = {
  targetKey: 'nqn',
  schema: z.strictObject({
    ...noteFields,
    nqn: z.string(),
    connections: z.array(
      z.strictObject({
        traddr: z.string(),
        trsvcid: z.string(),
        hostNqn: z.string(),
        controller: z.string().optional(),
      }),
    ),
  }),
  step: 'nvme/note',
};

export const subsystems = new TargetStates('nvme-tcp', noteFormat);

/** Answers if a controller is this connection, made by any program: the kernel makes none twice. */
export function isSamePath(connection: Connection, controller: NvmeController): boolean {
  return (
    controller.transport === 'tcp' &&
    controller.address.get('traddr') === connection.traddr &&
    controller.address.get('trsvcid') === connection.trsvcid &&
    controller.hostNqn === connection.hostNqn
  );
}

/** Answers if this driver has made a controller. One with another name was made later by another program. */
export function isOurs({ connections }: Pick<SubsystemNote, 'connections'>, controller: NvmeController): boolean {
  return connections.some(
    (each) => isSamePath(each, controller) && (each.controller ?? controller.name) === controller.name,
  );
}
