import type { Mutant } from './mutant.ts';
import { absenceMutants } from './table/absences.ts';
import { adoptionMutants } from './table/adoption.ts';
import { checkMutants } from './table/checks.ts';
import { cloudMutants } from './table/clouds.ts';
import { configurationMutants } from './table/configuration.ts';
import { connectionMutants } from './table/connections.ts';
import { copyMutants } from './table/copies.ts';
import { diskMutants } from './table/disks.ts';
import { durabilityMutants } from './table/durability.ts';
import { encryptionMutants } from './table/encryption.ts';
import { execMutants } from './table/exec.ts';
import { fleetMutants } from './table/fleet.ts';
import { freezeMutants } from './table/freeze.ts';
import { glusterMutants } from './table/gluster.ts';
import { goneNodeMutants } from './table/gone-nodes.ts';
import { locationMutants } from './table/homes.ts';
import { ledgerMutants } from './table/ledger.ts';
import { leftCopyMutants } from './table/left-copies.ts';
import { lockMutants } from './table/locks.ts';
import { moveMutants } from './table/moves.ts';
import { moveRestMutants } from './table/moves-rest.ts';
import { moveSnapshotMutants } from './table/moves-snapshots.ts';
import { nfsMutants } from './table/nfs.ts';
import { nodeMutants } from './table/node.ts';
import { planMutants } from './table/plans.ts';
import { programMutants } from './table/programs.ts';
import { reachMutants } from './table/reach.ts';
import { redactionMutants } from './table/redaction.ts';
import { removalMutants } from './table/removals.ts';
import { replayMutants } from './table/replays.ts';
import { requestMutants } from './table/requests.ts';
import { sicknessMutants } from './table/sickness.ts';
import { spaceMutants } from './table/space.ts';
import { takenBackMutants } from './table/taken-back.ts';

export const mutants: readonly Mutant[] = [
  ...reachMutants,
  ...durabilityMutants,
  ...freezeMutants,
  ...lockMutants,
  ...checkMutants,
  ...cloudMutants,
  ...redactionMutants,
  ...diskMutants,
  ...spaceMutants,
  ...removalMutants,
  ...planMutants,
  ...replayMutants,
  ...requestMutants,
  ...configurationMutants,
  ...connectionMutants,
  ...sicknessMutants,
  ...locationMutants,
  ...ledgerMutants,
  ...copyMutants,
  ...nodeMutants,
  ...programMutants,
  ...adoptionMutants,
  ...fleetMutants,
  ...absenceMutants,
  ...goneNodeMutants,
  ...glusterMutants,
  ...nfsMutants,
  ...execMutants,
  ...moveMutants,
  ...moveRestMutants,
  ...moveSnapshotMutants,
  ...takenBackMutants,
  ...leftCopyMutants,
  ...encryptionMutants,
];
