import manifest from '../package.json' with { type: 'json' };

/** This driver's version: what `--version` prints and GetPluginInfo answers (I03). */
export const version = manifest.version;
