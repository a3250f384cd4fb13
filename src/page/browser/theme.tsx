import { useState } from 'preact/hooks';

const themes = ['auto', 'light', 'dark'] as const;
type Theme = (typeof themes)[number];
const key = 'holdfast-theme';

/** A browser that keeps nothing shows what its system wants. */
function kept(): Theme {
  try {
    return themes.find((theme) => theme === localStorage.getItem(key)) ?? 'auto';
  } catch {
    return 'auto';
  }
}

function apply(theme: Theme): void {
  if (theme === 'auto') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
}

export function chooseTheme(): void {
  apply(kept());
}

/** Light, dark, or as the system has it. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState(kept);
  return (
    <label class="theme">
      <span class="unseen">Colours</span>
      <select
        value={theme}
        onChange={(event) => {
          const chosen = themes.find((each) => each === event.currentTarget.value) ?? 'auto';
          setTheme(chosen);
          apply(chosen);
          try {
            localStorage.setItem(key, chosen);
          } catch {
            // It holds until the page is closed.
          }
        }}
      >
        <option value="auto">Auto</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}
