import type { Logger } from 'pino';
import { z } from 'zod';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { persistentVolumes } from '../kubernetes/persistent-volumes.ts';
import { SecretNotes } from '../kubernetes/secret-notes.ts';
import type { ObjectPlace } from '../kubernetes/stored-object.ts';
import type { Absence } from '../routing/absences.ts';
import { ClaimTeller } from './claim-teller.ts';
import type { FleetState } from './fleet-state.ts';
import { AbsenceKeeper } from './keepers/absence-keeper.ts';

export interface TellingOptions {
  readonly api: KubernetesApi;
  readonly place: ObjectPlace;
  readonly state: FleetState;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly driverName: string;
  /** Name of the replica. */
  readonly controller: string;
  /** Time that a node may be away before events on its claims say it. */
  readonly afterMs: number;
}

/** Keeps unknown fields, which a newer version may store. */
const schema = z.looseObject({
  since: z.string(),
  told: z.literal(true).optional(),
  back: z.string().optional(),
});

export function absenceNotes(api: KubernetesApi, place: ObjectPlace): SecretNotes<Absence> {
  return new SecretNotes({ api, place, key: 'absent-nodes', schema });
}

/** Writes events on claims when their node goes away and comes back. Runs until the signal is aborted. */
export function startTelling(options: TellingOptions): void {
  const { api, driverName, place, signal } = options;
  const teller = new ClaimTeller(options);
  const notes = absenceNotes(api, place);
  const volumes = () => persistentVolumes(api, driverName);
  void teller.run(signal);
  void new AbsenceKeeper({ ...options, notes, teller, volumes }).run(signal);
}
