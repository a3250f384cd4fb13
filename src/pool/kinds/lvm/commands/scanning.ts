/** The things that LVM does automatically with devices that come up. */
export interface Scanning {
  /** It takes logical volumes for physical ones, if they say so. */
  readonly looksIntoVolumes: boolean;
  /** udev has it activate a volume group whose disks are all there. */
  readonly activatesByEvent: boolean;
}

/** From the text of `lvm lvmconfig --typeconfig full`. What a version does not know yet, it does. */
export function scanningOf(text: string): Scanning {
  return {
    looksIntoVolumes: setting(text, 'scan_lvs') !== '0',
    activatesByEvent: setting(text, 'event_activation') !== '0',
  };
}

function setting(text: string, name: string): string | undefined {
  return new RegExp(`^\\s*${name}=(\\S+)`, 'm').exec(text)?.[1];
}
