package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"parley/actors/core/money"
)

// Size is a number of bytes; in text a whole number with an optional unit B, KiB, MiB, GiB or TiB.
type Size int64

// Units of a Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

// String writes the size with the largest unit that divides it.
func (s Size) String() string {
	for _, unit := range sizeUnits() {
		if s != 0 && s%unit.bytes == 0 && unit.bytes > 1 {
			return strconv.FormatInt(int64(s/unit.bytes), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

type sizeUnit struct {
	name  string
	bytes Size
}

// sizeUnits is in the order in which suffixes must be tried: B ends all others.
func sizeUnits() []sizeUnit {
	return []sizeUnit{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}
}

func parseSize(text string) (Size, error) {
	unit := Size(1)
	for _, candidate := range sizeUnits() {
		if number, ok := strings.CutSuffix(text, candidate.name); ok {
			text, unit = strings.TrimSpace(number), candidate.bytes
			break
		}
	}
	number, err := strconv.ParseUint(strings.ReplaceAll(text, "_", ""), 10, 63)
	if err != nil || Size(number) > math.MaxInt64/unit {
		return 0, errors.New("needs a size such as 65536, 64KiB or 1GiB")
	}
	return Size(number) * unit, nil
}

// USD is an amount of US dollars in nano-dollars; in text a decimal number of dollars with at most nine decimals.
type USD int64

// String writes dollars without superfluous zeros.
func (u USD) String() string { return string(money.Append(nil, int64(u))) }

// Secret is text that must not be shown. It prints as a placeholder; Reveal returns the text.
type Secret string

// redacted replaces a secret wherever a configuration is shown. As a value it is refused.
const redacted = "[redacted]"

// Reveal returns the secret text.
func (s Secret) Reveal() string { return string(s) }

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// parseScalar sets a leaf from its text. The text is the same in the file, the environment and a flag.
func parseScalar(into reflect.Value, text string) error {
	switch target := into.Addr().Interface().(type) {
	case *string:
		*target = text
		return nil
	case *Secret:
		*target = Secret(text)
		return nil
	case *bool:
		parsed, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("needs true or false")
		}
		*target = parsed
		return nil
	case *int:
		parsed, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 32)
		if err != nil {
			return errors.New("needs a whole number")
		}
		*target = int(parsed)
		return nil
	case *float64:
		parsed, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(parsed) || math.IsInf(parsed, 0) {
			return errors.New("needs a number")
		}
		*target = parsed
		return nil
	}
	return parseUnit(into, text)
}

// parseUnit sets a leaf that has a unit.
func parseUnit(into reflect.Value, text string) error {
	var err error
	switch target := into.Addr().Interface().(type) {
	case *time.Duration:
		*target, err = parseDuration(text)
	case *Size:
		*target, err = parseSize(text)
	case *USD:
		var nano int64
		nano, err = money.Parse(text)
		*target = USD(nano)
	default:
		err = fmt.Errorf("has no text form (%s)", into.Type())
	}
	return err
}

func parseDuration(text string) (time.Duration, error) {
	parsed, err := time.ParseDuration(text)
	if err != nil || parsed < 0 {
		return 0, errors.New("needs a duration such as 500ms, 30s or 1h30m")
	}
	return parsed, nil
}

// formatScalar writes a leaf so that parseScalar reads it back, quoted as YAML needs it.
func formatScalar(value reflect.Value) string {
	switch leaf := value.Interface().(type) {
	case string:
		return formatString(leaf)
	case Secret:
		return formatString(leaf.String())
	case time.Duration:
		return formatDuration(leaf)
	case float64:
		return strconv.FormatFloat(leaf, 'f', -1, 64)
	default:
		return fmt.Sprint(leaf)
	}
}

func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// formatString quotes text that YAML could take for something other than a string.
func formatString(text string) string {
	if plainString(text) {
		return text
	}
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return strconv.Quote(text)
	}
	return strings.TrimSuffix(quoted.String(), "\n")
}

func plainString(text string) bool {
	switch strings.ToLower(text) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n", ".", "..", "...", ".nan", ".inf":
		return false
	}
	matched, err := regexp.MatchString(`^[A-Za-z./][A-Za-z0-9._/-]*$`, text)
	return err == nil && matched && !strings.HasSuffix(text, ".")
}
