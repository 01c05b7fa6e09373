"""The `aws:` keys of a stack file: those that are supported, and why every other one is refused.

A key must apply to the AWS provider, to the AWS CLI that the kubeconfig calls, and to `tandem`. One that applies only
to Pulumi could use two accounts in one stack.
"""

from collections.abc import Iterable, Iterator

from sharing.problems import Problem, did_you_mean

REGION = "aws:region"
ALLOWED, FORBIDDEN = "aws:allowedAccountIds", "aws:forbiddenAccountIds"
HONOURED = (REGION, "aws:profile", "aws:assumeRoles", ALLOWED, "aws:defaultTags")
NOT_EVERYWHERE = "is not supported: the AWS CLI in the kubeconfig would ignore it"
PROFILE = "Put it into a profile of your AWS configuration and write `aws:profile`."
WRONG_KIND = "is not supported: the program does not pass it to AWS"
REFUSED = {
    "assumeRole": (WRONG_KIND, "Write `aws:assumeRoles: [{roleArn: …}]`."),
    "accessKey": (NOT_EVERYWHERE, PROFILE),
    "secretKey": (NOT_EVERYWHERE, PROFILE),
    "token": (NOT_EVERYWHERE, PROFILE),
    "assumeRoleWithWebIdentity": (NOT_EVERYWHERE, "Set AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE instead."),
    "sharedConfigFiles": (NOT_EVERYWHERE, "Set AWS_CONFIG_FILE instead."),
    "sharedCredentialsFiles": (NOT_EVERYWHERE, "Set AWS_SHARED_CREDENTIALS_FILE instead."),
    "customCaBundle": (NOT_EVERYWHERE, "Set AWS_CA_BUNDLE instead."),
    "httpProxy": (NOT_EVERYWHERE, "Set HTTP_PROXY instead."),
    "httpsProxy": (NOT_EVERYWHERE, "Set HTTPS_PROXY instead."),
    "noProxy": (NOT_EVERYWHERE, "Set NO_PROXY instead."),
    "useFipsEndpoint": (NOT_EVERYWHERE, "Set AWS_USE_FIPS_ENDPOINT=true instead."),
    "useDualstackEndpoint": (NOT_EVERYWHERE, "Set AWS_USE_DUALSTACK_ENDPOINT=true instead."),
    # No variable replaces it: the provider always sets 25 attempts, which wins over AWS_MAX_ATTEMPTS
    # (terraform-provider-aws internal/provider/sdkv2/provider.go; aws-sdk-go-base, WithRetryMaxAttempts).
    "maxRetries": (WRONG_KIND, "Remove it."),
    "retryMode": (WRONG_KIND, "Set AWS_RETRY_MODE instead."),
    "forbiddenAccountIds": (WRONG_KIND, "List the allowed accounts in `aws:allowedAccountIds`."),
    **dict.fromkeys(
        (
            "ec2MetadataServiceEndpoint",
            "ec2MetadataServiceEndpointMode",
            "endpoints",
            "ignoreTags",
            "insecure",
            "s3UsEast1RegionalEndpoint",
            "s3UsePathStyle",
            "skipCredentialsValidation",
            "skipMetadataApiCheck",
            "skipRegionValidation",
            "skipRequestingAccountId",
            "stsRegion",
            "tagPolicyCompliance",
            "tokenBucketRateLimiterCapacity",
            "userAgents",
        ),
        (WRONG_KIND, "Remove it."),
    ),
}
"""Every other key of the provider (pulumi-aws 7.51, `pulumi_aws.Provider`), with the reason and the fix."""


def refuse_keys(keys: Iterable[str]) -> Iterator[Problem]:
    """An error for each unsupported key. Values are never shown: some are secrets."""
    for key in keys:
        if key in HONOURED:
            continue
        rule, fix = REFUSED.get(key.removeprefix("aws:"), ("unknown key", did_you_mean(key, HONOURED)))
        yield Problem(key, "", rule, fix)
