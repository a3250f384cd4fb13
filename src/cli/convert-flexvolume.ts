import { convertManifest } from './convert.ts';
import { type FlexPersistentVolume, persistentVolumeOfFlex, readFlexVolume } from './flex-persistent-volume.ts';
import type { Output } from './output/output.ts';

export interface ConvertOptions {
  /** The path, or - for standard input. */
  readonly file: string;
  /** The name of the program in the configuration; undefined: the second part of the name of the FlexVolume driver. */
  readonly program: string | undefined;
  /** The program presents a device. */
  readonly device: boolean;
}

/** `holdfast convert-flexvolume`: PersistentVolumes of kind `exec` for those with `flexVolume` in a manifest. */
export function convertFlexVolumeCommand(output: Output, { device, file, program }: ConvertOptions): number {
  return convertManifest(output, file, {
    wanted: 'PersistentVolume with flexVolume',
    convert(manifest) {
      const flex = readFlexVolume(manifest);
      if (flex === undefined || 'mistake' in flex) return flex;
      const warnings = warningsFor(flex).map((warning) => `${flex.name}: ${warning}`);
      return { manifest: persistentVolumeOfFlex(flex, { program, device }), warnings };
    },
  });
}

function warningsFor({ mountOptions, reclaimPolicy }: FlexPersistentVolume): string[] {
  return [
    ...(reclaimPolicy === 'Retain' ? [] : ['its reclaim policy becomes Retain: nothing deletes such a volume']),
    ...(mountOptions ? ['its mountOptions are left out: FlexVolume drivers have never had them'] : []),
  ];
}
