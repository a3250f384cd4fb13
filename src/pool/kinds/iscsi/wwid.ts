/**
 * The identity of a logical unit in one form. sysfs writes `naa.6001405…`, scsi_id(8) and multipath(8) `36001405…`: the first
 * digit is the type of the designator (SPC, VPD page 83h).
 * @returns undefined if it is neither
 */
export function normalWwid(text: string): string | undefined {
  const word = text.trim().replaceAll(/\s+/g, '_');
  const sysfs = /^(naa|eui)\.([0-9a-fA-F]{16}|[0-9a-fA-F]{24}|[0-9a-fA-F]{32})$/.exec(word);
  if (sysfs !== null) return `${sysfs[1]}.${sysfs[2]?.toLowerCase()}`;
  const other = /^([23])([0-9a-fA-F]{16}|[0-9a-fA-F]{24}|[0-9a-fA-F]{32})$/.exec(word);
  if (other !== null) return `${other[1] === '3' ? 'naa' : 'eui'}.${other[2]?.toLowerCase()}`;
  return /^t10\.[!-~]{1,250}$/.test(word) ? word : undefined;
}

/**
 * The name of multipathd for a logical unit: of a unit with a NAA or EUI identifier.
 * @param identity in the form of `normalWwid`. @returns undefined: other identifiers have other forms there
 */
export function multipathName(identity: string): string | undefined {
  const [, form, digits] = /^(naa|eui)\.([0-9a-f]+)$/.exec(identity) ?? [];
  return digits === undefined ? undefined : `${form === 'naa' ? '3' : '2'}${digits}`;
}
