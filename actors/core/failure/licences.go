package failure

// Of licences: what one includes, and the keys of offline ones.
const (
	NotLicensed          Reason = "not_licensed"
	LicenseLacksFeature  Reason = "license_lacks_feature"
	LicenseKeyLength     Reason = "license_key_length"
	LicenseKeysNotTaken  Reason = "license_keys_not_taken"
	LicenseKeysNotYet    Reason = "license_keys_not_yet"
	LicenseKeyUntrusted  Reason = "license_key_untrusted"
	LicenseKeyMalformed  Reason = "license_key_malformed"
	LicenseKeyIncomplete Reason = "license_key_incomplete"
	LicenseKeyBadClaim   Reason = "license_key_bad_claim"
	LicenseKeyForeign    Reason = "license_key_foreign"
	LicenseKeyEarly      Reason = "license_key_early"
	LicenseKeyExpired    Reason = "license_key_expired"
)

// licenceWords are the default words of these reasons; empty for any other.
func licenceWords(r Reason) string {
	switch r {
	case NotLicensed:
		return "This feature is not available in your license"
	case LicenseLacksFeature:
		return "Your license does not have access to this feature"
	case LicenseKeyLength:
		return "licenseKey must have {least} to {most} characters"
	case LicenseKeysNotTaken:
		return "This deployment takes no license keys: it has no public key to check them with"
	case LicenseKeysNotYet:
		return "Wait until every node of the cluster is upgraded: this one keeps license keys, others do not yet"
	case LicenseKeyUntrusted:
		return "The license key is not signed by the issuer that this deployment trusts"
	case LicenseKeyMalformed:
		return "The license key does not hold a license"
	case LicenseKeyIncomplete:
		return "The license key says nothing of {claim}"
	case LicenseKeyBadClaim:
		return "The license key is not valid here: {claim}"
	case LicenseKeyForeign:
		return "The license key is for another tenant"
	case LicenseKeyEarly:
		return "The license is not valid before {time}"
	case LicenseKeyExpired:
		return "The license expired at {time}"
	default:
		return ""
	}
}
