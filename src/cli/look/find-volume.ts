import { didYouMean } from '../../settings/nearest.ts';
import type { Claim } from '../../volume/claim.ts';
import { FailedPrecondition, NotFound } from '../../volume/errors.ts';
import { printable } from '../output/text.ts';

/** The names by which a volume can be found. */
export interface Known {
  readonly id: string;
  readonly name: string;
  readonly claim?: Claim | undefined;
  readonly pool: string;
}

/** `namespace/name`, as kubectl shows it. */
export function claimText({ namespace, name }: Claim): string {
  return `${namespace}/${name}`;
}

const maxShown = 5;

/**
 * The one volume that is meant by an id, a name or `namespace/claim`.
 * @param where the places that were searched, for the message that it was not found
 * @throws NotFound, or FailedPrecondition if several are
 */
export function findVolume<Volume extends Known>(volumes: readonly Volume[], wanted: string, where: string): Volume {
  const byId = volumes.filter(({ id }) => id === wanted);
  const meant = byId.length > 0 ? byId : volumes.filter((volume) => handlesOf(volume).includes(wanted));
  const [one, ...others] = meant;
  if (one === undefined) {
    const hint = printable(didYouMean(wanted, volumes.flatMap(handlesOf)));
    throw new NotFound(`there is no volume '${printable(wanted)}' ${where}, by id, name or namespace/claim${hint}`);
  }
  if (others.length === 0) return one;
  const list = meant.slice(0, maxShown).map((volume) => `${volume.id} (${describe(volume)})`);
  const left = meant.length > maxShown ? ` and ${meant.length - maxShown} more` : '';
  throw new FailedPrecondition(
    `name one by its id: '${printable(wanted)}' is ${meant.length} volumes, ${list.join(', ')}${left}`,
  );
}

/** True if an id, a name or `namespace/claim` may mean the volume. */
export function isMeant(volume: Known, wanted: string): boolean {
  return volume.id === wanted || handlesOf(volume).includes(wanted);
}

function handlesOf({ claim, name }: Known): string[] {
  return claim === undefined ? [name] : [name, claimText(claim)];
}

function describe({ claim, name, pool }: Known): string {
  const words = [name, ...(claim === undefined ? [] : [`claim ${claimText(claim)}`]), `pool ${pool}`];
  return printable(words.join(', '));
}
