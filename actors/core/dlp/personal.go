package dlp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"net/netip"
	"strings"
)

// Personal data.
const (
	Email          Kind = "email"
	Phone          Kind = "phone"
	CreditCard     Kind = "creditCard"
	IBAN           Kind = "iban"
	Swift          Kind = "swift"
	SocialSecurity Kind = "nationalId"
	TaxpayerID     Kind = "taxpayerId"
	TCKN           Kind = "tckn"
	VKN            Kind = "vkn"
	RoutingNumber  Kind = "routingNumber"
	Passport       Kind = "passport"
	BirthDate      Kind = "birthDate"
	IPAddress      Kind = "ipAddress"
	CryptoWallet   Kind = "cryptoWallet"
)

// email finds an address around its @.
func (s *scanner) email(v view, at int) {
	const longest = 64
	start, end := at, at+1
	for start > 0 && at-start < longest && (isWord(v.text[start-1]) || strings.IndexByte(".+-%", v.text[start-1]) >= 0) {
		start--
	}
	for end < len(v.text) && end-at < 4*longest && (isAlnum(v.text[end]) || v.text[end] == '-' || v.text[end] == '.') {
		end++
	}
	host := strings.TrimRight(v.text[at+1:end], ".-")
	name := strings.TrimLeft(v.text[start:at], ".-+%")
	dot := strings.LastIndexByte(host, '.')
	if name == "" || dot <= 0 || len(host)-dot < 3 || strings.Contains(host, "..") || !isLetter(host[dot+1]) {
		return
	}
	s.add(v, Email, Personal, at-len(name), at+1+len(host))
}

// spelled finds "name (at) host (dot) tld", at the word "at".
func (s *scanner) spelled(v view, i int) {
	before := strings.TrimRight(v.text[:i], " ([{<")
	start := len(before)
	for start > 0 && len(before)-start < 64 && (isWord(before[start-1]) || before[start-1] == '.' || before[start-1] == '-') {
		start--
	}
	if start == len(before) || len(before) == i {
		return
	}
	end, dots := i+len("at"), 0
	for {
		for end < len(v.text) && strings.IndexByte(" )]}>", v.text[end]) >= 0 {
			end++
		}
		word := end
		for end < len(v.text) && (isAlnum(v.text[end]) || v.text[end] == '-') {
			end++
		}
		if word == end {
			return
		}
		after := strings.TrimLeft(v.text[end:min(len(v.text), end+12)], " ([{<")
		if !strings.HasPrefix(strings.ToLower(after), "dot") {
			break
		}
		dots++
		end += strings.Index(strings.ToLower(v.text[end:]), "dot") + len("dot")
	}
	if dots > 0 {
		s.add(v, Email, Personal, start, end)
	}
}

// digits is a number as people write it: groups with one separator between them.
type digits struct {
	value      []byte
	groups     []int
	separators []byte
	start, end int

	room struct { // for them, so that looking at a number costs no memory
		value      [longestNumber]byte
		groups     [longestNumber]int
		separators [longestNumber]byte
	}
}

// longestNumber is more digits than any number has that is looked for.
const longestNumber = 24

// read reads the digits at i, to their last group.
func (n *digits) read(text string, i int) {
	n.start, n.value, n.groups, n.separators = i, n.room.value[:0], n.room.groups[:0], n.room.separators[:0]
	for i < len(text) && len(n.value) < longestNumber {
		group := i
		for i < len(text) && isDigit(text[i]) && len(n.value) < longestNumber {
			n.value = append(n.value, text[i])
			i++
		}
		n.groups = append(n.groups, i-group)
		n.end = i
		between := i
		for between < len(text) && between-i < 2 && strings.IndexByte(" -./()", text[between]) >= 0 {
			between++
		}
		if between == i || between == len(text) || !isDigit(text[between]) {
			break
		}
		n.separators = append(n.separators, text[i])
		i = between
	}
}

// number finds what the digits at i are, and returns where to go on.
func (s *scanner) number(v view, i int) int {
	if s.digits == nil {
		s.digits = new(digits)
	}
	n := s.digits
	n.read(v.text, i)
	if len(n.value) < 4 { // nothing that is looked for, but the next group may be more than digits
		return n.start + n.groups[0]
	}
	before := strings.ToLower(v.text[max(0, n.start-40):n.start])
	plus := n.start > 0 && v.text[n.start-1] == '+'
	start := n.start
	if plus || n.start > 0 && v.text[n.start-1] == '(' {
		start--
	}
	stuck := n.end < len(v.text) && (isWord(v.text[n.end]) || v.text[n.end] == '@')
	kind := Kind("")
	switch {
	case stuck, n.start < s.from && n.end > s.from && inAccount(v, n.start):
	case isCard(n):
		kind, start = CreditCard, n.start
	case !plus && isSocial(n, before):
		kind = SocialSecurity
	case !plus && isTaxpayer(n):
		kind = TaxpayerID
	case !plus && isTCKN(n):
		kind = TCKN
	case isAddress(n, v.text[n.start:n.end], before):
		kind = IPAddress
	case isDate(n) && said(before, "born", "birth", "dob", "doğum", "dogum"):
		kind = BirthDate
	case !plus && len(n.value) == 10 && said(before, "vkn", "vergi", "tax no", "tax number", "tax id") && isVKN(n.value):
		kind = VKN
	case !plus && len(n.value) == 9 && said(before, "routing", "aba") && isRouting(n.value):
		kind = RoutingNumber
	case !plus && len(n.groups) == 1 && len(n.value) == 9 && said(before, "passport", "pasaport"):
		kind = Passport
	case isPhone(n, plus, start < n.start && !plus, before):
		kind = Phone
	}
	if kind != "" {
		s.add(v, kind, Personal, start, n.end)
		return n.end
	}
	return n.start + n.groups[0]
}

// said says that one of the words stands before, whole or as a part.
func said(before string, words ...string) bool {
	for _, word := range words {
		if strings.Contains(before, word) {
			return true
		}
	}
	return false
}

// isCard says whether it is the number of a card: of a known issuer, with the right last digit (ISO/IEC 7812).
func isCard(n *digits) bool {
	if len(n.value) < 13 || len(n.value) > 19 || bytes.ContainsAny(n.separators, "/()") {
		return false
	}
	sum := 0
	for i, c := range n.value {
		d := int(c - '0')
		if (len(n.value)-i)%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	if sum%10 != 0 {
		return false
	}
	first := (int(n.value[0]-'0')*10+int(n.value[1]-'0'))*100 + int(n.value[2]-'0')*10 + int(n.value[3]-'0')
	switch size := len(n.value); {
	case first/1000 == 4:
		return size == 13 || size == 16 || size == 19
	case first >= 5100 && first <= 5599, first >= 2221 && first <= 2720, first == 9792:
		return size == 16
	case first/100 == 34, first/100 == 37:
		return size == 15
	case first >= 3000 && first <= 3059, first/100 == 36, first/100 == 38:
		return size == 14
	case first >= 3528 && first <= 3589, first == 6011, first/100 == 65, first >= 6440 && first <= 6499:
		return size >= 16
	case first/100 == 62:
		return size >= 16
	}
	return false
}

// isSocial says whether it is a social security number of the United States.
func isSocial(n *digits, before string) bool {
	if len(n.value) != 9 {
		return false
	}
	grouped := len(n.groups) == 3 && n.groups[0] == 3 && n.groups[1] == 2 && n.separators[0] == n.separators[1] && n.separators[0] != '/' && n.separators[0] != '.'
	if !grouped && !said(before, "ssn", "social security") {
		return false
	}
	area, group, serial := string(n.value[:3]), string(n.value[3:5]), string(n.value[5:])
	return area != "000" && area != "666" && area[0] != '9' && group != "00" && serial != "0000"
}

// isTaxpayer says whether it is an individual taxpayer number of the United States: 9xx-(50..65, 70..88, 90..92, 94..99)-xxxx.
func isTaxpayer(n *digits) bool {
	if len(n.value) != 9 || len(n.groups) != 3 || n.groups[0] != 3 || n.groups[1] != 2 || n.value[0] != '9' {
		return false
	}
	group := int(n.value[3]-'0')*10 + int(n.value[4]-'0')
	return group >= 50 && group <= 65 || group >= 70 && group <= 88 || group >= 90 && group <= 92 || group >= 94
}

// isTCKN says whether it is a Turkish identity number.
func isTCKN(n *digits) bool {
	if len(n.value) != 11 || n.value[0] == '0' || bytes.ContainsAny(n.separators, "/()") {
		return false
	}
	odd, even, sum := 0, 0, 0
	for i, c := range n.value[:10] {
		d := int(c - '0')
		sum += d
		switch {
		case i < 9 && i%2 == 0:
			odd += d
		case i < 9:
			even += d
		}
	}
	return ((odd*7-even)%10+10)%10 == int(n.value[9]-'0') && sum%10 == int(n.value[10]-'0')
}

// isVKN says whether ten digits are a Turkish tax number.
func isVKN(value []byte) bool {
	sum := 0
	for i, c := range value[:9] {
		d := (int(c-'0') + 9 - i) % 10
		if d == 0 {
			continue
		}
		if power := d * (1 << (9 - i)) % 9; power != 0 {
			sum += power
		} else {
			sum += 9
		}
	}
	return (10-sum%10)%10 == int(value[9]-'0')
}

// isRouting says whether nine digits are a bank's number of the United States.
func isRouting(value []byte) bool {
	sum := 0
	for i, weight := range [9]int{3, 7, 1, 3, 7, 1, 3, 7, 1} {
		sum += weight * int(value[i]-'0')
	}
	return sum%10 == 0 && sum > 0
}

// isAddress says whether it is an address of the Internet, and neither a version nor one that means nobody.
func isAddress(n *digits, text, before string) bool {
	if len(n.groups) != 4 || string(n.separators) != "..." || strings.HasSuffix(before, "v") || said(before, "version", "release", "build", "sürüm") {
		return false
	}
	address, err := netip.ParseAddr(text)
	return err == nil && !address.IsLoopback() && !address.IsUnspecified()
}

// isDate says whether it is a date in figures.
func isDate(n *digits) bool {
	if len(n.groups) != 3 || n.separators[0] != n.separators[1] || !bytes.ContainsAny(n.separators[:1], "/.- ") {
		return false
	}
	first, last := n.groups[0] == 4 && n.groups[1] <= 2 && n.groups[2] <= 2, n.groups[2] == 4 && n.groups[0] <= 2 && n.groups[1] <= 2
	return first || last
}

// isPhone says whether it is a telephone number: with its country, as it is written at home, or behind a word that says so.
func isPhone(n *digits, plus, bracket bool, before string) bool {
	size := len(n.value)
	switch {
	case size < 7 || size > 15 || isDate(n):
		return false
	case plus:
		return size >= 8 && n.value[0] != '0'
	case said(before, "phone", "tel", "mobile", "call", "gsm", "cep", "whatsapp", "fax"):
		return size >= 7 && (len(n.groups) > 1 || size >= 10) && size <= 13
	case size == 10 && len(n.groups) == 3 && n.groups[0] == 3 && n.groups[1] == 3:
		return n.value[0] >= '2' && (bracket || n.separators[0] != '/')
	case size == 11 && (n.value[0] == '1' || n.value[0] == '0') && len(n.groups) >= 4:
		return n.groups[0] == 1 || n.groups[0] == 4
	}
	return false
}

// account finds an IBAN at a word (ISO 13616, checked by ISO 7064 MOD 97-10).
func (s *scanner) account(v view, i int) (end int, found bool) {
	const least, most = 15, 34
	t := v.text
	if i+4 > len(t) || !isLetter(t[i]) || !isLetter(t[i+1]) || !isDigit(t[i+2]) || !isDigit(t[i+3]) {
		return i, false
	}
	compact := make([]byte, 0, most)
	ends := make([]int, 0, most)
	for k := i; k < len(t) && len(compact) < most; k++ {
		switch c := t[k]; {
		case isAlnum(c):
			compact, ends = append(compact, upper(c)), append(ends, k+1)
		case (c == ' ' || c == '-') && k+1 < len(t) && isAlnum(t[k+1]):
		default:
			k = len(t)
		}
	}
	for size := len(compact); size >= least; size-- {
		whole := ends[size-1] == len(t) || !isAlnum(t[ends[size-1]])
		if whole && mod97(compact[:size]) == 1 {
			s.add(v, IBAN, Personal, i, ends[size-1])
			return ends[size-1], true
		}
	}
	return i, false
}

// inAccount says whether a byte is in an IBAN that begins before it.
func inAccount(v view, at int) bool {
	const longest = 68 // in single characters
	for i := at - 1; i >= max(0, at-longest); i-- {
		if i > 0 && isWord(v.text[i-1]) {
			continue
		}
		probe := scanner{}
		if end, found := probe.account(v, i); found && end > at {
			return true
		}
	}
	return false
}

func upper(c byte) byte {
	if c >= 'a' && c <= 'z' {
		return c - 0x20
	}
	return c
}

// mod97 is the number that an IBAN is, its first four characters last and letters as 10 to 35, modulo 97.
func mod97(account []byte) int {
	rest := 0
	for i := range account {
		c := account[(i+4)%len(account)]
		if isDigit(c) {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c-'A') + 10) % 97
		}
	}
	return rest
}

// word finds what stands at the beginning of a word and is told by its letters.
func (s *scanner) word(v view, i int) (end int, found bool) {
	t := v.text
	end = i
	for end < len(t) && isAlnum(t[end]) {
		end++
	}
	value := t[i:end]
	switch size := len(value); {
	case (size == 8 || size == 11) && strings.ToUpper(value) == value && isLetters(value[:6]) &&
		said(strings.ToLower(t[max(0, i-40):i]), "swift", "bic"):
		s.add(v, Swift, Personal, i, end)
	case size >= 7 && size <= 9 && isLetter(value[0]) && isDigit(value[size-1]) && isDigit(value[2]) &&
		said(strings.ToLower(t[max(0, i-40):i]), "passport", "pasaport"):
		s.add(v, Passport, Personal, i, end)
	case size == 42 && strings.HasPrefix(value, "0x") && isAll(value[2:], isHex):
		s.add(v, CryptoWallet, Personal, i, end)
	case size >= 42 && size <= 62 && strings.HasPrefix(strings.ToLower(value), "bc1") && bech32(strings.ToLower(value)):
		s.add(v, CryptoWallet, Personal, i, end)
	case size >= 26 && size <= 35 && (value[0] == '1' || value[0] == '3') && base58(value):
		s.add(v, CryptoWallet, Personal, i, end)
	default:
		return i, false
	}
	return end, true
}

// sixth finds an address of IPv6.
func (s *scanner) sixth(v view, i int) (end int, found bool) {
	end = i
	colons := 0
	for end < len(v.text) && end-i < 45 && (isHex(v.text[end]) || v.text[end] == ':') {
		if v.text[end] == ':' {
			colons++
		}
		end++
	}
	if colons < 2 {
		return i, false
	}
	text := strings.TrimRight(v.text[i:end], ":")
	address, err := netip.ParseAddr(text)
	if err != nil || address.IsLoopback() || address.IsUnspecified() || len(text) < 7 {
		return i, false
	}
	s.add(v, IPAddress, Personal, i, i+len(text))
	return i + len(text), true
}

func isLetters(text string) bool { return isAll(text, isLetter) }

func isAll(text string, is func(byte) bool) bool {
	for i := range len(text) {
		if !is(text[i]) {
			return false
		}
	}
	return true
}

// base58 says whether a value is an address with a right checksum: 25 bytes of which the last four are a hash of the others.
func base58(value string) bool {
	const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	number := new(big.Int)
	for i := range len(value) {
		digit := strings.IndexByte(alphabet, value[i])
		if digit < 0 {
			return false
		}
		number.Add(number.Mul(number, big.NewInt(58)), big.NewInt(int64(digit)))
	}
	var raw [25]byte
	if number.BitLen() > 8*len(raw) {
		return false
	}
	number.FillBytes(raw[:])
	once := sha256.Sum256(raw[:21])
	twice := sha256.Sum256(once[:])
	return hex.EncodeToString(twice[:4]) == hex.EncodeToString(raw[21:])
}

// bech32 says whether a value has a right checksum (BIP 173, BIP 350).
func bech32(value string) bool {
	const alphabet = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	sum := uint32(1)
	step := func(v byte) {
		top := sum >> 25
		sum = (sum&0x1ffffff)<<5 ^ uint32(v)
		for i, g := range [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				sum ^= g
			}
		}
	}
	for _, c := range []byte{3, 3, 0, 2, 3} { // "bc", its high bits, 0, its low bits
		step(c)
	}
	for i := len("bc1"); i < len(value); i++ {
		at := strings.IndexByte(alphabet, value[i])
		if at < 0 {
			return false
		}
		step(byte(at))
	}
	return sum == 1 || sum == 0x2bc830a3
}
