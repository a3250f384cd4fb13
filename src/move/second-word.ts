import { FailedPrecondition } from '../volume/errors.ts';

/**
 * Refuses an order by which a copy becomes the volume while something is against it that its second word passes over. All of that is in one
 * refusal, so that it is seen before the word is typed.
 * @param against the reasons, each a whole sentence or more
 * @throws FailedPrecondition
 */
export function requireSecondWord(isEvenSo: boolean, against: readonly string[]): void {
  if (isEvenSo || against.length === 0) return;
  const all = against.length === 1 ? 'that' : 'all of that';
  throw new FailedPrecondition(`${against.join(' Also: ')} To make it the volume although ${all} is so: --even-so.`);
}
