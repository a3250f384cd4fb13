import { WrongValue } from '../../../settings/section.ts';

/** Octal, as csi-driver-nfs has it: 0 is for a mode that is left alone. */
export function mode(text: string): number | undefined {
  if (!/^0?[0-7]{1,4}$/.test(text)) throw new WrongValue('must be a mode in octal, such as 0777, or 0');
  const bits = Number.parseInt(text, 8);
  return bits === 0 ? undefined : bits;
}
