package results

import (
	"fmt"
	"strings"
)

// colours are the report's, for a light and a dark page. A test holds the
// contrasts: 4.5 for text, 3 for lines and bars, against every background that
// they stand on (WCAG 2.2 AA).
var colours = []struct{ name, light, dark string }{
	{"page", "#f7f8fa", "#0f1318"},
	{"card", "#ffffff", "#171c23"},
	{"sunk", "#eef1f5", "#222932"},
	{"ink", "#16202c", "#e6ebf1"},
	{"soft", "#556172", "#9fabba"},
	{"line", "#dfe4ea", "#2c3540"},
	{"edge", "#c3cbd5", "#455160"},
	{"link", "#1257b0", "#82b8ff"},
	{"select", "#1257b022", "#82b8ff22"},
	{"good", "#0f6f43", "#5fd39a"},
	{"bad", "#b3261e", "#ff8f85"},
	{"warn-ink", "#8a4500", "#ffc46b"},
	{"warn-page", "#fff6e6", "#2a2113"},
	{"warn-edge", "#e0a34e", "#a8752a"},

	// Contenders, by role. Told apart by lightness and dash too.
	{"subject0", "#1763c6", "#5aa9ff"},
	{"subject1", "#0b7a75", "#35c9bd"},
	{"subject2", "#6b4fc8", "#b09bff"},
	{"peer0", "#c2410c", "#ff9350"},
	{"peer1", "#a3195b", "#ff7ab3"},
	{"peer2", "#7a5c00", "#e0c04a"},
	{"limit", "#3b4757", "#cfd8e3"},
	{"null", "#6c7787", "#8593a5"},
}

// slots are the colours of the roles, in the order in which contenders take
// them; the last is shared by all beyond.
var slots = map[Role][]string{
	RoleSubject:  {"subject0", "subject1", "subject2"},
	RoleExternal: {"subject2", "peer2"},
	RolePeer:     {"peer0", "peer1", "peer2"},
	RoleLimit:    {"limit"},
	RoleNull:     {"null"},
}

// paletteCSS is both themes as custom properties, and a class c-NAME for each
// colour.
func paletteCSS() string {
	var light, dark, classes strings.Builder
	for _, c := range colours {
		fmt.Fprintf(&light, "--%s:%s;", c.name, c.light)
		fmt.Fprintf(&dark, "--%s:%s;", c.name, c.dark)
		fmt.Fprintf(&classes, ".c-%s{color:var(--%s)}\n", c.name, c.name)
	}
	return ":root{color-scheme:light;" + light.String() + "}\n" +
		"@media screen and (prefers-color-scheme:dark){:root:not([data-theme=light]){color-scheme:dark;" + dark.String() + "}}\n" +
		"@media screen{:root[data-theme=dark]{color-scheme:dark;" + dark.String() + "}}\n" + classes.String()
}
