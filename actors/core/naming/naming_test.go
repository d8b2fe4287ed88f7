package naming

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlain(t *testing.T) {
	for name, plain := range map[string]string{
		"":                                "",
		"report.pdf":                      "report.pdf",
		"invoice\u202Efdp.exe":            "invoicefdp.exe",
		"a\u2066b\u2069c\u200Fd":          "abcd",
		"two\u2028lines\u2029here":        "two lines here",
		"\uFEFFmark\u200B\u00AD":          "mark",
		"Ärger & Söhne":                   "Ärger & Söhne",
		"می\u200Cخواهم":                   "می\u200Cخواهم",
		"👩\u200D🚀":                        "👩\u200D🚀",
		"🏴\U000E0067\U000E0062\U000E007F": "🏴\U000E0067\U000E0062\U000E007F",
		"\u0600١٢":                        "\u0600١٢",
	} {
		require.Equal(t, plain, Plain(name), "%q", name)
	}
}
